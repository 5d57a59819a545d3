"""Sources of the suites: Debian packages, fetched by name into the user's cache. Nothing is installed.

The release is fixed, so that the programs and their counts are the same everywhere. The machine's own apt
does the work with a private state; the host's package lists and database stay as they are.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from guests.fetch import SECONDS, Unavailable, prepare_apt, run_apt
from kvrm.cache import root

RELEASE: Final = "bookworm"
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SETTINGS: Final = """\
APT::Update::Error-Mode "any";
Dir::Etc::sourcelist "{apt}/sources.list";
Dir::Etc::sourceparts "-";
"""


@dataclass(frozen=True, slots=True)
class Package:
    """What is taken from one package: the `folders` of the archive `tar` (a glob pattern)."""

    name: str
    binary: bool
    tar: str
    folders: tuple[str, ...]


PACKAGES: Final = {
    "gcc": Package(
        "gcc-12-source",
        True,
        "usr/src/gcc-12/gcc-*.tar.*",
        ("gcc/testsuite/gcc.c-torture/execute/", "gcc/testsuite/gcc.target/aarch64/"),
    ),
    "valgrind": Package("valgrind", False, "valgrind_*.orig.tar.*", ("none/tests/arm64/", "tests/malloc.h")),
    "qemu": Package("qemu", False, "qemu_*.orig.tar.*", ("tests/tcg/",)),
}
"""The name of a folder in the cache, and the package that fills it."""


def home() -> Path:
    """The directory of everything about the suites that can be made again."""
    return root() / "suites"


def sources() -> Path:
    """A directory with one folder for each of `PACKAGES`; fetched once. Raises Unavailable."""
    folder, stamp = home() / "sources", home() / "sources.txt"
    home().mkdir(parents=True, exist_ok=True)
    with (home() / "lock").open("w") as lock:
        # The other test processes wait here and find the result.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != repr(PACKAGES):
            shutil.rmtree(folder, ignore_errors=True)
            _fetch(home() / "apt", folder)
            stamp.write_text(repr(PACKAGES))
    return folder


def _site() -> str:
    """Where the machine's own apt finds the packages of the release."""
    command = [
        "apt-get",
        "indextargets",
        "--format",
        "$(SITE)",
        "Created-By: Packages",
        f"Codename: {RELEASE}",
    ]
    found = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS).stdout.split()
    if not found:
        raise Unavailable(f"apt-get on this machine knows no packages of {RELEASE}")
    return found[0]


def _fetch(apt: Path, folder: Path) -> None:
    prepare_apt(apt, _SETTINGS.format(apt=apt))
    signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    lines = [f"{kind} {signed}{_site()} {RELEASE} main\n" for kind in ("deb", "deb-src")]
    (apt / "sources.list").write_text("".join(lines))
    run_apt(apt, "apt-get", "update")
    for name, package in PACKAGES.items():
        how = ("download",) if package.binary else ("source", "--download-only")
        run_apt(apt, "apt-get", *how, package.name)
        for deb in apt.glob("*.deb"):
            run_apt(apt, "dpkg-deb", "-x", str(deb), ".")
            deb.unlink()
        archives = sorted(apt.glob(package.tar))
        if not archives:
            raise Unavailable(f"the package {package.name} holds no {package.tar}")
        _extract(archives[0], folder / name, package.folders)
    # Valgrind's configure script would write it; on Linux its programs need none of its content.
    (folder / "valgrind/config.h").touch()
    shutil.rmtree(apt)


def _extract(archive: Path, target: Path, folders: Sequence[str]) -> None:
    """Unpack what lies below `folders`, without the archive's outermost directory."""
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            name = member.name.partition("/")[2]
            if not (member.isfile() and name.startswith(tuple(folders))) or ".." in name.split("/"):
                continue
            content = tar.extractfile(member)
            assert content is not None
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(content.read())
