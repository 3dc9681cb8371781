"""The root of a guest of QEMU: a choice of this machine's own programs, held in its memory.

A guest that has its host's files begins with a small one, which loads its drivers. Both are
archives in the form that a kernel unpacks as its first root (cpio, "newc").
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from glob import glob
from pathlib import Path

from labkit.box.folder import BOXES, Tell
from labkit.box.guests import kernel
from labkit.box.guests.kernel import Kernel, cache
from labkit.box.needs import SEARCH_PATH
from labkit.errors import BoxError

MUST_HAVE = """
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
MAGIC, END = "070701", "TRAILER!!!"
CONSOLE = (5, 1)


def path(guest_kernel: Kernel, tell: Tell, *, loader: bool = False) -> Path:
    """The image for a kernel and the programs as they are now; made when there is none yet."""
    programs = dict(_programs(LOADER if loader else MUST_HAVE, "" if loader else WELCOME))
    parts = [] if loader else [Path(file) for place in PARTS for file in glob(place)]
    file = cache() / "images" / f"{_digest(guest_kernel, [*programs.values(), *parts])}.cpio"
    if not file.exists():
        tell("making the image of guests; later boxes find it")
        file.parent.mkdir(parents=True, exist_ok=True)
        _forget_unused(file.parent)
        beside = file.with_suffix(f".{os.getpid()}")
        lists = guest_kernel.listed(loader)
        beside.write_bytes(_pack(programs, parts, lists))
        beside.replace(file)
    return file


# A box that is up starts and moves its guests by the image that it began with.
def _forget_unused(images: Path) -> None:
    texts = "".join(file.read_text() for file in BOXES.glob("*/box.json"))
    for old in images.glob("*.cpio"):
        with suppress(FileNotFoundError):
            if old.name not in texts and time.time() - old.stat().st_mtime > YOUNG_SECONDS:
                old.unlink()


def _programs(names: str, welcome: str) -> Iterator[tuple[str, Path]]:
    musts = names.split()
    for name in (*musts, *welcome.split(), *LOADERS):
        if place := shutil.which(name, path=SEARCH_PATH):
            yield name, Path(place).resolve()
        elif name in musts:
            raise BoxError(
                f"an image of a guest needs `{name}`, which this machine lacks",
                hint="`labkit doctor` says how to get what is missing",
            )


def _digest(guest_kernel: Kernel, programs: Iterable[Path]) -> str:
    facts = [str(guest_kernel.image), Path(__file__).read_text()]
    for program in programs:
        status = program.stat()
        facts.append(f"{program} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _pack(programs: dict[str, Path], parts: list[Path], lists: Mapping[str, list[Path]]) -> bytes:
    archive = Archive()
    archive.folders(FOLDERS.split())
    archive.console()
    archive.files({f"/bin/{name}": file.read_bytes() for name, file in programs.items()})
    beside = {*parts, *map(Path, _libraries([*programs.values(), *parts]))}
    archive.files({str(file): file.read_bytes() for file in sorted(beside)})
    files = {module.name: module for modules in lists.values() for module in modules}
    archive.files({f"/lib/modules/{n}": kernel.content(m) for n, m in files.items()}, 0o644)
    for name, modules in lists.items():
        lines = "".join(f"{module.name}\n" for module in modules)
        archive.files({f"/lib/modules/{name}": lines.encode()}, 0o644)
    return archive.whole()


def _libraries(programs: Iterable[Path]) -> set[str]:
    libraries: set[str] = set()
    for program in programs:
        result = subprocess.run(["ldd", str(program)], capture_output=True, text=True)
        libraries |= set(LIBRARY.findall(result.stdout))
    # perl's own list of what it is made for, which holds the numbers of system calls.
    libraries |= {str(file) for file in Path("/usr/lib").glob("*/perl-base/Config.pm")}
    return libraries


class Archive:
    """Grows by what is added to it; parents come first, as the kernel wants them."""

    def __init__(self) -> None:
        self._out = bytearray()
        self._folders: set[str] = {"/"}
        self._count = 0

    def folders(self, paths: Iterable[str], mode: int = 0o755) -> None:
        """Add folders, and those that they are in."""
        for path in paths:
            for folder in [*reversed(Path(path).parents), Path(path)]:
                if (name := str(folder)) not in self._folders:
                    self._folders.add(name)
                    self._add(name, stat.S_IFDIR | mode)

    def files(self, content: Mapping[str, bytes], mode: int = 0o755) -> None:
        """Add files by path."""
        for path, text in content.items():
            self.folders([str(Path(path).parent)])
            self._add(path, stat.S_IFREG | mode, text)

    def console(self) -> None:
        """Add the device that the first process speaks to."""
        self.folders(["/dev"])
        self._add("/dev/console", stat.S_IFCHR | 0o600, device=CONSOLE)

    def whole(self) -> bytes:
        """The archive, ended; two that follow each other are read as one."""
        self._add(END, 0)
        return bytes(self._out)

    def _add(
        self, path: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)
    ) -> None:
        self._count += 1
        name = path.lstrip("/").encode() + b"\0"
        numbers = (self._count, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name), 0)
        head = MAGIC + "".join(f"{number:08x}" for number in numbers)
        for part in (head.encode() + name, content):
            self._out += part
            self._out += b"\0" * (-len(self._out) % 4)
