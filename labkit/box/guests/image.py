"""The root of a guest of QEMU: a choice of this machine's own programs, held in its memory.

A guest that has its host's files begins with a small one, which loads its drivers.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from glob import glob
from pathlib import Path

from labkit.box.folder import BOXES, Tell
from labkit.box.guests import kernel
from labkit.box.guests.cpio import Archive
from labkit.box.guests.kernel import Kernel, cache
from labkit.box.needs import SEARCHED
from labkit.errors import BoxError

REQUIRED = """
    sh sshd ip ping mount cat ls mkdir mv cp rm ln chmod chown touch sleep hostname date echo true
    false sed grep head tail wc tr cut sort tee dd sync find xargs ps kill env id uname nproc stat
    mktemp mkfifo readlink sha256sum tar gzip setsid flock taskset chrt test printf od awk df
"""
WELCOME = """
    ssh-keygen cksum perl sysctl tc ethtool netperf netserver sockperf iperf3 irqbalance mkfs.ext4
"""
"""Taken along where the machine has them."""
LOADER = "sh mount mkdir switch_root"
"""Programs of the small one."""
YOUNG_SECONDS = 3600.0
"""Before that, a box that is coming up may not have said yet that it needs an image."""
LOADERS = ("insmod", "busybox")
PARTS = ("/usr/lib/openssh/sshd-*", "/usr/libexec/openssh/sshd-*", "/usr/lib/ssh/sshd-*")
"""Since OpenSSH 9.8 sshd has others begin each session, in a folder of theirs."""
FOLDERS = "/dev/pts /proc /sys /run/sshd /tmp /root /etc /var/lib /var/tmp"
LIBRARY = re.compile(r"(/\S+) \(0x")


def path(found: Kernel, tell: Tell, *, loader: bool = False) -> Path:
    """The image for a kernel and the programs as they are now; made when there is none yet."""
    programs = dict(_programs(LOADER if loader else REQUIRED, "" if loader else WELCOME))
    parts = [] if loader else _parts()
    wanted = cache() / "images" / f"{_digest(found, [*programs.values(), *parts])}.cpio"
    if not wanted.exists():
        tell("making the image of guests; later boxes find it")
        wanted.parent.mkdir(parents=True, exist_ok=True)
        _forget_unused(wanted.parent)
        beside = wanted.with_suffix(f".{os.getpid()}")
        listed = found.listed(loader)
        beside.write_bytes(_made(programs, parts, listed))
        beside.replace(wanted)
    return wanted


# A box that is up starts and moves its guests by the image that it began with.
def _forget_unused(images: Path) -> None:
    needed = "".join(file.read_text() for file in BOXES.glob("*/box.json"))
    for old in images.glob("*.cpio"):
        with suppress(FileNotFoundError):
            if old.name not in needed and time.time() - old.stat().st_mtime > YOUNG_SECONDS:
                old.unlink()


def _programs(needed: str, welcome: str) -> Iterator[tuple[str, Path]]:
    required = needed.split()
    for name in (*required, *welcome.split(), *LOADERS):
        if found := shutil.which(name, path=SEARCHED):
            yield name, Path(found).resolve()
        elif name in required:
            raise BoxError(
                f"an image of a guest needs `{name}`, which this machine lacks",
                hint="`labkit doctor` says how to get what is missing",
            )


def _digest(found: Kernel, programs: Iterable[Path]) -> str:
    facts = [str(found.image), Path(__file__).read_text()]
    for program in programs:
        stat = program.stat()
        facts.append(f"{program} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _made(programs: dict[str, Path], parts: list[Path], lists: Mapping[str, list[Path]]) -> bytes:
    archive = Archive()
    archive.folders(FOLDERS.split())
    archive.console()
    archive.files({f"/bin/{name}": file.read_bytes() for name, file in programs.items()})
    beside = {*parts, *map(Path, _libraries([*programs.values(), *parts]))}
    archive.files({str(file): file.read_bytes() for file in sorted(beside)})
    every = {module.name: module for modules in lists.values() for module in modules}
    archive.files({f"/lib/modules/{n}": kernel.content(m) for n, m in every.items()}, 0o644)
    for name, modules in lists.items():
        listed = "".join(f"{module.name}\n" for module in modules)
        archive.files({f"/lib/modules/{name}": listed.encode()}, 0o644)
    return archive.whole()


def _parts() -> list[Path]:
    return [Path(file) for place in PARTS for file in glob(place)]


def _libraries(programs: Iterable[Path]) -> set[str]:
    found: set[str] = set()
    for program in programs:
        done = subprocess.run(["ldd", str(program)], capture_output=True, text=True)
        found |= set(LIBRARY.findall(done.stdout))
    # perl's own list of what it is made for, which holds the numbers of system calls.
    found |= {str(file) for file in Path("/usr/lib").glob("*/perl-base/Config.pm")}
    return found
