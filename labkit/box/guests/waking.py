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

import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from labkit.box import needs

PROGRAMS = ("linux.uml",)

LIBRARY, REGISTERS_ONLY = "waking.so", "registers.so"
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
PTRACE = """\
8d 47 ff              lea eax, [rdi-1]
83 f8 02              cmp eax, 2
76 56                 jbe peek              its answer is what it reads
49 89 c8              mov r8, rcx
81 ff 05 42 00 00     cmp edi, 0x4205       PTRACE_SETREGSET
75 38                 jne call
81 fa 02 02 00 00     cmp edx, 0x202        NT_X86_XSTATE
75 30                 jne call
81 79 08 00 40 00 00  cmp [rcx+8], 0x4000
77 27                 ja call
56                    push rsi
57                    push rdi
48 8b 31              mov rsi, [rcx]
48 8b 49 08           mov rcx, [rcx+8]
4c 8d 05 ..v.         lea r8, [vector]
48 8d 3d ..r.         lea rdi, [registers]
49 89 38              mov [r8], rdi
68 00 40 00 00        push 0x4000
41 8f 40 08           pop [r8+8]
f3 a4                 rep movsb
5f                    pop rdi
5e                    pop rsi
48 89 d1              call: mov rcx, rdx
48 63 d6              movsxd rdx, esi
89 fe                 mov esi, edi
6a 65                 push 101              ptrace
5f                    pop rdi
31 c0                 xor eax, eax
ff 25 ..s.            jmp [syscall]         of the C library, which sets errno
6a 00                 peek: push 0
49 89 e0              mov r8, rsp
48 89 d1              mov rcx, rdx
48 63 d6              movsxd rdx, esi
89 fe                 mov esi, edi
6a 65                 push 101
5f                    pop rdi
31 c0                 xor eax, eax
ff 15 ..s.            call [syscall]
5a                    pop rdx
48 85 c0              test rax, rax
78 03                 js out
48 89 d0              mov rax, rdx
c3                    out: ret
"""
STATE, SYSCALL, VECTOR, REGISTERS = b"....", b"..s.", b"..v.", b"..r."
"""The places of data in these listings."""
MOST_REGISTERS = 0x4000
PAGE, HEAD, SEGMENT, SYMBOL = 0x1000, 64, 56, 24
# A shared object (3) of little-endian 64 bit, its segments right behind this.
HEADER = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
    "<HHIQQQIHHHHHH", 3, X86_64, 1, 0, HEAD, 0, 0, HEAD, SEGMENT, 4, 0, 0, 0
)
FUNCTIONS = {"epoll_create": EPOLL_CREATE, "sigsuspend": SIGSUSPEND, "epoll_wait": EPOLL_WAIT,
             "ptrace": PTRACE}  # fmt: skip
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
