"""Real AArch64 programs from Debian packages, fetched once into the user's cache.

The machine's own apt does the work, with a private state: the host's package lists and database stay as they
are, and nothing is installed. Run this file to print where the programs are.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import platformdirs

PACKAGES = {
    "busybox-static": "1:1.35.0-4+deb12u1+b1",
    "bash-static": "5.2.15-2+b13",
    "klibc-utils": "2.0.12-1",
    "libklibc": "2.0.12-1",
}
"""What the tests run: package name to the version preferred; where that is gone, the current one is taken."""
LIBRARIES = {
    "liblua5.4-dev": "5.4.4-3+deb12u1",
    "libsqlite3-dev": "3.40.1-2+deb12u2",
    "zlib1g-dev": "1:1.2.13.dfsg-1",
}
"""What `bench/run_lanes.py` links statically."""

SECONDS = 600
"""Longest time that one command of a private apt may take."""

_APT_CONF = """\
APT::Sandbox::User "";
Dir::State "{apt}/state";
Dir::State::status "{apt}/state/status";
Dir::Cache "{apt}/cache";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
"""
_ARM64 = """\
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
"""


class Unavailable(Exception):
    """Packages cannot be had on this machine; the message says why."""


def guests() -> Path:
    """Return a directory laid out like a small Debian root that holds the programs; fetch them once.

    Raises `Unavailable` where apt or the network is missing.
    """
    return _fetched("test-guests", PACKAGES)


def libraries() -> Path:
    """Return such a directory with static libraries and their headers. Raises `Unavailable`."""
    return _fetched("bench-libraries", LIBRARIES)


def _fetched(place: str, packages: Mapping[str, str]) -> Path:
    names = "-".join(sorted(packages))
    home = platformdirs.user_cache_path("kvrm", ensure_exists=True) / place
    root = home / "root"
    stamp = home / "packages.txt"
    home.mkdir(exist_ok=True)
    with _locked(home / "lock"):
        if not stamp.exists() or stamp.read_text() != names:
            _fetch(home / "apt", root, packages)
            stamp.write_text(names)
    return root


def program(root: Path, name: str) -> Path:
    """Return the path of a program below `root`, whichever directory its package puts it in."""
    for directory in ("bin", "usr/bin", "usr/lib/klibc/bin"):
        path = root / directory / name
        if path.is_file():
            return path
    raise Unavailable(f"the fetched packages hold no {name}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep the other test processes out: one fetches, the rest wait and find the result."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(apt: Path, root: Path, packages: Mapping[str, str]) -> None:
    prepare_apt(apt, _ARM64)
    shutil.rmtree(root, ignore_errors=True)
    # A broken extra source does not matter while the packages are found.
    run_apt(apt, "apt-get", "update", check=False)
    for name, version in packages.items():
        if run_apt(apt, "apt-get", "download", f"{name}={version}", check=False):
            run_apt(apt, "apt-get", "download", name)
    root.mkdir()
    for deb in sorted(apt.glob("*.deb")):
        run_apt(apt, "dpkg-deb", "-x", str(deb), str(root))
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    shutil.rmtree(apt)


def prepare_apt(apt: Path, settings: str) -> None:
    """Make `apt` the state of an apt of its own, with these settings besides. Raises Unavailable."""
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise Unavailable(f"{tool} is missing: what the tests run comes from Debian packages")
    shutil.rmtree(apt, ignore_errors=True)
    for directory in ("state/lists/partial", "cache/archives/partial"):
        (apt / directory).mkdir(parents=True)
    (apt / "state/status").touch()
    (apt / "apt.conf").write_text(_APT_CONF.format(apt=apt) + settings)


def run_apt(apt: Path, *command: str, check: bool = True) -> int:
    """Run a command in `apt` under its configuration; return the exit code. Raises Unavailable."""
    try:
        done = subprocess.run(
            command,
            cwd=apt,
            env=os.environ | {"APT_CONFIG": str(apt / "apt.conf"), "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"`{' '.join(command[:3])}` had not ended after {SECONDS} s") from None
    if check and done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        telling = next((line for line in lines if line.startswith(("E:", "Err:"))), lines[-1])
        raise Unavailable(f"`{' '.join(command[:3])}` failed: {telling}")
    return done.returncode


if __name__ == "__main__":
    print(guests())
