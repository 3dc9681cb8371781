"""What a host sees: the machine's own files, read-only, and a /run of its own with these in it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labkit.box.layout import GUEST, SEATS, Layout, cpu_list
from labkit.box.links import GUEST_UID, at_guest
from labkit.box.sshd import AUTHORIZED, HOST_KEY, SETTINGS, KeyPair, sshd_config

SCRIPTS = Path(__file__).parent
GUEST_FILES = "labkit/guest/run"


@dataclass(frozen=True)
class File:
    """A file as a host is to find it."""

    content: str | bytes
    mode: int = 0o644
    owner: int = 0


def script(name: str) -> str:
    """The text of one of the shell scripts beside this module."""
    return (SCRIPTS / name).read_text("utf-8")


def files(layout: Layout, role: str, own: KeyPair, user: KeyPair) -> dict[str, File]:
    """What is in /run of the machine that plays `role`, by path."""
    etc = {
        "hostname": f"{layout.name}-{role}\n",
        "hosts": _hosts(layout),
        "machine-id": f"{_serial(layout, role)}\n",
        "passwd": _passwd(),
        "group": "root:x:0:\nnogroup:x:65534:\n",
    }
    return {
        **{f"labkit/etc/{name}": File(text) for name, text in etc.items()},
        "labkit/etc/shadow": File("root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n", 0o600),
        HOST_KEY: File(own.private, 0o600),
        AUTHORIZED: File(f"{user.public}\n"),
        SETTINGS: File(sshd_config(layout.control(role))),
    }


def guest_files(layout: Layout, own: KeyPair, user: KeyPair) -> dict[str, File]:
    """What the server needs to run its guest, who may read its own part of it only."""
    inside = files(layout, GUEST, own, user) | {"labkit/links": File(at_guest(layout))}
    return {
        "labkit/bin/guest": File(script("guest.sh"), 0o755),
        "labkit/guest/init": File(script("guest_init.sh"), 0o755),
        "labkit/guest/description": File(_description(layout)),
        **{
            f"{GUEST_FILES}/{path}": File(file.content, file.mode, GUEST_UID)
            for path, file in inside.items()
        },
    }


def packed(content: Mapping[str, File]) -> bytes:
    """The files as a tar archive, parents before children."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for folder in sorted({str(up) for path in content for up in Path(path).parents} - {"."}):
            member = tarfile.TarInfo(folder)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            if folder == GUEST_FILES:
                member.mode, member.uid = 0o700, GUEST_UID
            archive.addfile(member)
        for path, file in content.items():
            whole = file.content.encode() if isinstance(file.content, str) else file.content
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(whole), file.mode
            member.uid = member.gid = file.owner
            archive.addfile(member, io.BytesIO(whole))
    return out.getvalue()


def _hosts(layout: Layout) -> str:
    roles = [role for role in SEATS if role != "root"]
    control = "".join(f"{layout.control(role)} {role}-control\n" for role in roles)
    data = "".join(f"{layout.data(role)} {layout.name}-{role} {role}\n" for role in roles)
    return f"127.0.0.1 localhost\n{control}{data}"


# Root's account must not look locked to sshd, whatever the machine's own file says.
def _passwd() -> str:
    return (
        "root:x:0:0:root:/root:/bin/sh\n"
        "sshd:x:64002:65534::/run/sshd:/bin/false\n"
        "nobody:x:65534:65534::/nonexistent:/bin/false\n"
    )


def _serial(layout: Layout, role: str) -> str:
    return f"{layout.pair:030x}{SEATS[role]:02x}"


def _description(layout: Layout) -> str:
    cpus = cpu_list(layout.cpus_of("server"))
    macs = f"mac0={layout.mac(0, GUEST)}\nmac1={layout.mac(1, GUEST)}\n"
    return f"nic=bridge\nbatch=128\nlro=on\nmemory=128M\ncpus={cpus}\npolicy=other\n{macs}"
