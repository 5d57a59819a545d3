"""The files of /etc that C libraries read, for a guest that sees no /etc of the host."""

from __future__ import annotations

import stat
from typing import Final

from kvrm.linux.files.filesystem import FileSystem
from kvrm.linux.files.virtual import Virtual
from kvrm.linux.proc.system import HOSTNAME, fixed

_HOSTS: Final = f"127.0.0.1\tlocalhost\n127.0.1.1\t{HOSTNAME}\n::1\tlocalhost ip6-localhost\n"
_SWITCH: Final = "passwd: files\ngroup: files\nshadow: files\nhosts: files\n"
_NOBODY: Final = 65534


def add_etc(files: FileSystem) -> None:
    """Make them; the users are root, nobody and the guest's own."""
    if files.root.lookup(b"etc") is not None:
        return
    users = [("root", 0, 0, "/root"), ("nobody", _NOBODY, _NOBODY, "/nonexistent")]
    groups = [("root", 0), ("nogroup", _NOBODY)]
    if files.uid not in (0, _NOBODY):
        users.append(("user", files.uid, files.gid, "/"))
    if files.gid not in (0, _NOBODY):
        groups.append(("user", files.gid))
    texts = {
        "passwd": "".join(f"{name}:x:{uid}:{gid}:{name}:{home}:/bin/sh\n" for name, uid, gid, home in users),
        "group": "".join(f"{name}:x:{gid}:\n" for name, gid in groups),
        "hosts": _HOSTS,
        "nsswitch.conf": _SWITCH,
    }
    for name, text in texts.items():
        status = files.status(stat.S_IFREG | 0o644, size=len(text))._replace(uid=0, gid=0)
        files.show_file(f"/etc/{name}".encode(), Virtual(status, fixed(text)))
