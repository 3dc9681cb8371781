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

It is machine code, so that no machine needs a compiler; elf(5) describes the file around it.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from labkit.box import needs

PROGRAMS = ("linux.uml",)

LIBRARY = "waking.so"
WAKEUPS = ("kept", "lossy")
"""With the library, and as the kernel has them by itself."""
X86_64 = 62

EPOLL_CREATE = """\
31 ff                 xor edi, edi
b8 23 01 00 00        mov eax, 291          epoll_create1(0)
0f 05                 syscall
89 05 ....            mov [kept], eax
c3                    ret
"""
SIGSUSPEND = """\
49 89 fa              mov r10, rdi          the signals to be blocked meanwhile
8b 05 ....            mov eax, [kept]
48 0f ba e8 20        bts rax, 32           ask for POLLIN
50                    push rax
48 89 e7              mov rdi, rsp
6a 01                 push 1                one file
5e                    pop rsi
31 d2                 xor edx, edx          for as long as it takes
6a 08                 push 8                bytes of signals
41 58                 pop r8
b8 0f 01 00 00        mov eax, 271          ppoll
0f 05                 syscall
5a                    pop rdx
ff c8                 dec eax
75 13                 jne out               it was a signal
b8 27 00 00 00        mov eax, 39           getpid
0f 05                 syscall
89 c7                 mov edi, eax
6a 1d                 push 29               SIGIO
5e                    pop rsi
b8 3e 00 00 00        mov eax, 62           kill
0f 05                 syscall
6a ff                 out: push -1
58                    pop rax
c3                    ret
"""
EPOLL_WAIT = """\
6a 01                 push 1                one file
5a                    pop rdx
49 89 ca              mov r10, rcx
b8 e8 00 00 00        mov eax, 232          epoll_wait
0f 05                 syscall
c3                    ret
"""
PLACE_OF_KEPT = b"...."
PAGE, HEAD, SEGMENT, SYMBOL = 0x1000, 64, 56, 24
FUNCTIONS = {"epoll_create": EPOLL_CREATE, "sigsuspend": SIGSUSPEND, "epoll_wait": EPOLL_WAIT}
NAMES = b"".join(b"\0" + name.encode() for name in FUNCTIONS) + b"\0"


def best() -> str:
    """The wake-ups that guests can have on this machine."""
    found = shutil.which("linux.uml", path=needs.SEARCHED)
    return WAKEUPS[0] if found and possible(Path(found)) else WAKEUPS[1]


def possible(kernel: Path) -> bool:
    """Whether a `linux.uml` can take the library: of x86-64, with functions of a C library."""
    try:
        whole = kernel.read_bytes()
    except OSError:
        return False
    ours = whole[:5] == b"\x7fELF\x02" and whole[18:20] == struct.pack("<H", X86_64)
    return ours and all(f"\0{name}\0".encode() in whole for name in FUNCTIONS)


def library() -> bytes:
    """The shared library, whole."""
    codes = list(map(_assembled, FUNCTIONS.values()))
    many = len(codes)
    hashed = HEAD + 4 * SEGMENT
    # One bucket for all symbols: the first, and after each the next.
    table = struct.pack(f"<{4 + many}I", 1, many + 1, 1, 0, *range(2, many + 1), 0)
    symbols = _aligned(hashed + len(table))
    names = symbols + (many + 1) * SYMBOL
    places = [_aligned(names + len(NAMES))]
    for code in codes:
        places.append(_aligned(places[-1] + len(code)))
    *firsts, data = places
    dynamic = _dynamic(hashed, names, symbols)
    kept = PAGE + data + len(dynamic)
    linked = {at: _linked(code, at, kept) for code, at in zip(codes, firsts, strict=True)}
    called = [NAMES.index(f"{name}\0".encode()) for name in FUNCTIONS]
    parts = {
        0: _header(), HEAD: _segments(data, len(dynamic)), hashed: table, names: NAMES, **linked,
        symbols: bytes(SYMBOL) + b"".join(map(_symbol, called, firsts, linked.values())),
        data: dynamic + struct.pack("<i", -1),
    }  # fmt: skip
    whole = bytearray(data + len(dynamic) + 4)
    for at, part in parts.items():
        whole[at : at + len(part)] = part
    return bytes(whole)


def _assembled(listing: str) -> bytes:
    codes = (line[:22].split() for line in listing.splitlines())
    return b"".join(code.encode() if "." in code else bytes.fromhex(code)
                    for line in codes for code in line)  # fmt: skip


# Where the file of epoll is kept is given by how far it is from the next instruction.
def _linked(code: bytes, at: int, kept: int) -> bytes:
    place = code.find(PLACE_OF_KEPT)  # nowhere, if it is not needed
    return code.replace(PLACE_OF_KEPT, struct.pack("<i", kept - (at + place + 4)))


def _aligned(at: int) -> int:
    return (at + 15) & ~15


# A shared object (3) of little-endian 64 bit, its segments right behind this.
def _header() -> bytes:
    marks = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    return marks + struct.pack(
        "<HHIQQQIHHHHHH", 3, X86_64, 1, 0, HEAD, 0, 0, HEAD, SEGMENT, 4, 0, 0, 0
    )


# Read and run, read and written, the linker's part of the latter, and a stack that is not run.
def _segments(data: int, dynamic: int) -> bytes:
    def segment(kind: int, flags: int, at: int, base: int, size: int, align: int) -> bytes:
        return struct.pack("<IIQQQQQQ", kind, flags, at, base + at, base + at, size, size, align)

    return (
        segment(1, 5, 0, 0, data, PAGE)
        + segment(1, 6, data, PAGE, dynamic + 4, PAGE)
        + segment(2, 6, data, PAGE, dynamic, 8)
        + segment(0x6474E551, 6, 0, 0, 0, 16)
    )


def _dynamic(hashed: int, names: int, symbols: int) -> bytes:
    pairs = ((4, hashed), (5, names), (6, symbols), (10, len(NAMES)), (11, SYMBOL), (0, 0))
    return b"".join(struct.pack("<QQ", *pair) for pair in pairs)


# A function (2) for everybody (1), of no section that this file would describe.
def _symbol(name: int, at: int, code: bytes) -> bytes:
    return struct.pack("<IBBHQQ", name, 0x12, 0, 1, at, len(code))
