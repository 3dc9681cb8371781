"""Keeps guests of User-Mode Linux from sleeping on while something waits for them.

Their kernel sleeps in `sigsuspend` until a signal says that a file can be read. Some are lost:

- A signal that comes after the kernel turned signals off, and before it sleeps, does not wake it.
- A tap signals before it wakes those who poll it (`tun_net_xmit`). A kernel that looks at once
  finds nothing to read, and sleeps.

Such a guest answers at its next tick, 10 ms later, or with its next packet. The library made here
stands before the C library of `linux.uml`. It sleeps in `ppoll` on the kernel's own epoll, which
forgets nothing, and sends the kernel a signal if there is something to read.

Others are lost later. The kernel asks epoll for several files at once and keeps the answer in one
place. While it deals with the first file, a signal may come and overwrite the rest. Epoll speaks
of each answer of a disk once, so a disk can fall silent for good. With the library the kernel
hears of one file at a time.

CPUs with AMX have more registers than that kernel has room for. The kernel around it takes them
whole or not at all, so no guest gets as far as its first program ("Attempted to kill init"). The
library hands over what the guest knows, with zeros behind it.

It is machine code, so that no machine needs a compiler; elf(5) describes the file around it.
"""

import re
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from labkit.box import needs
from labkit.machine.scripts import beside

PROGRAMS = ("linux.uml",)

LIBRARY, REGISTERS_ONLY = "waking.so", "registers.so"
WAKEUPS = ("kept", "lossy")
"""With the library, and as the kernel has them by itself."""
X86_64 = 62

STATE, SYSCALL, VECTOR, REGISTERS = b"....", b"..s.", b"..v.", b"..r."
"""The places of data in the listings."""
MOST_REGISTERS = 0x4000
PAGE, HEAD, SEGMENT, SYMBOL = 0x1000, 64, 56, 24
# A shared object (3) of little-endian 64 bit, its segments right behind this.
HEADER = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
    "<HHIQQQIHHHHHH", 3, X86_64, 1, 0, HEAD, 0, 0, HEAD, SEGMENT, 4, 0, 0, 0
)
LISTING = re.compile(r"^= (\w+)\n((?:.+\n)+)", re.MULTILINE)
FUNCTIONS = dict(LISTING.findall(beside(__file__, "waking.lst")))
"""Machine code of each, beside what it does."""
CALL = "syscall"
"""The function of the C library that the code calls."""


def best() -> str:
    """The wake-ups that guests can have on this machine."""
    program = shutil.which("linux.uml", path=needs.SEARCH_PATH)
    return WAKEUPS[0] if program and possible(Path(program)) else WAKEUPS[1]


def possible(kernel: Path) -> bool:
    """Whether a `linux.uml` can take the library: of x86-64, with functions of a C library."""
    try:
        content = kernel.read_bytes()
    except OSError:
        return False
    fits = content[:5] == b"\x7fELF\x02" and content[18:20] == struct.pack("<H", X86_64)
    return fits and all(f"\0{name}\0".encode() in content for name in FUNCTIONS)


def library(functions: Sequence[str] = tuple(FUNCTIONS)) -> bytes:
    """The shared library with these functions, whole."""
    texts = b"".join(b"\0" + name.encode() for name in (*functions, CALL)) + b"\0"
    codes = [_assemble(FUNCTIONS[name]) for name in functions]
    count = len(codes)
    hash_at = HEAD + 4 * SEGMENT
    # One bucket for all symbols of ours: the first, and after each the next.
    table = struct.pack(f"<{5 + count}I", 1, count + 2, 1, 0, *range(2, count + 1), 0, 0)
    symbols = _align(hash_at + len(table))
    moves = symbols + (count + 2) * SYMBOL
    names = moves + SYMBOL
    places = [_align(names + len(texts))]
    for code in codes:
        places.append(_align(places[-1] + len(code)))
    *firsts, data = places
    pairs = ((4, hash_at), (5, names), (6, symbols), (10, len(texts)), (11, SYMBOL), (7, moves),
             (8, SYMBOL), (9, SYMBOL), (0, 0))  # fmt: skip
    dynamic = b"".join(struct.pack("<QQ", *pair) for pair in pairs)
    syscall = PAGE + data + len(dynamic)
    at_run = {SYSCALL: syscall, STATE: syscall + 8, VECTOR: syscall + 16, REGISTERS: syscall + 32}
    codes_at = {at: _link(code, at, at_run) for code, at in zip(codes, firsts, strict=True)}
    name_at = [texts.index(f"\0{name}\0".encode()) + 1 for name in (*functions, CALL)]
    # A function (2) for everybody (1), of no section that this file would describe; and one that
    # another library has, with the place that its address is to be put at (R_X86_64_GLOB_DAT).
    symbol = struct.Struct("<IBBHQQ").pack
    entries = [symbol(name, 0x12, 0, 1, at, len(code))
               for name, (at, code) in zip(name_at, codes_at.items(), strict=False)]  # fmt: skip
    entries.append(symbol(name_at[-1], 0x12, 0, 0, 0, 0))
    relocation = struct.pack("<QQq", syscall, (count + 1) << 32 | 6, 0)
    tail = struct.pack("<qi", 0, -1)
    parts = {
        0: HEADER, HEAD: _segments(data, len(dynamic), len(tail)), hash_at: table, names: texts,
        symbols: bytes(SYMBOL) + b"".join(entries), moves: relocation, **codes_at,
        data: dynamic + tail,
    }  # fmt: skip
    content = bytearray(data + len(dynamic) + len(tail))
    for at, part in parts.items():
        content[at : at + len(part)] = part
    return bytes(content)


def _assemble(listing: str) -> bytes:
    codes = (line[:22].split() for line in listing.splitlines())
    return b"".join(code.encode() if "." in code else bytes.fromhex(code)
                    for line in codes for code in line)  # fmt: skip


# Data is given by how far it is from the next instruction.
def _link(code: bytes, at: int, at_run: Mapping[bytes, int]) -> bytes:
    for name, address in at_run.items():
        while (place := code.find(name)) >= 0:
            content = struct.pack("<i", address - (at + place + 4))
            code = code[:place] + content + code[place + 4 :]
    return code


def _align(at: int) -> int:
    return (at + 15) & ~15


# Read and run, read and written, the linker's part of the latter, and a stack that is not run.
def _segments(data: int, dynamic: int, state: int) -> bytes:
    def segment(
        kind: int, flags: int, at: int, base: int, size: int, align: int, zeros: int = 0
    ) -> bytes:
        places = at, base + at, base + at
        return struct.pack("<IIQQQQQQ", kind, flags, *places, size, size + zeros, align)

    return (
        segment(1, 5, 0, 0, data, PAGE)
        + segment(1, 6, data, PAGE, dynamic + state, PAGE, zeros=32 + MOST_REGISTERS)
        + segment(2, 6, data, PAGE, dynamic, 8)
        + segment(0x6474E551, 6, 0, 0, 0, 16)
    )
