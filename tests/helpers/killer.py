"""Runs a command, and at its N-th system call that changes something ends it, or refuses the call.

    python killer.py LOG WHAT N COMMAND...

Counted are the calls of all its processes together: strace counts those of each process alone. A
call changes something when it writes a file, or makes, renames or removes one, or has it synced, or
takes a lock: whatever is done between two of them is gone with the process. WHAT is `kill` for all
processes, `one` for the one that calls, the number of an error, or a signal (SIGINT, ...) that the
command itself gets, while all that it has started goes on; then it says with which code that ended,
and stays until all has ended, or it is ended itself. Of each call LOG gets a line.
"""

import ctypes
import os
import signal
import struct
import sys
from contextlib import suppress

WRITES = {1: "write", 18: "pwrite64", 20: "writev", 40: "sendfile", 77: "ftruncate"}
OPENS = {2: "open", 257: "openat"}
OTHERS = {
    73: "flock", 74: "fsync", 75: "fdatasync", 76: "truncate", 82: "rename", 83: "mkdir",
    84: "rmdir", 85: "creat", 86: "link", 87: "unlink", 162: "sync", 258: "mkdirat",
    263: "unlinkat", 264: "renameat", 265: "linkat", 306: "syncfs", 316: "renameat2",
    326: "copy_file_range",
}  # fmt: skip
CALLS = {**WRITES, **OPENS, **OTHERS}
"""By their numbers on x86-64."""
TRACEME, CONT, GETREGS, SETREGS, SETOPTIONS = 0, 7, 12, 13, 0x4200
# Forks of all sorts, programs that begin, calls that the filter chose; none outlives its tracer.
OPTIONS = 2 | 4 | 8 | 0x10 | 0x80 | 0x100000
CHOSEN, ALL_CHILDREN = 7, 0x40000000
RAX, RDX, RSI, RDI, CALL = 10, 12, 13, 14, 15
FOR_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def only_calls_of_interest():
    """Has the kernel stop this process, and all it starts, at those calls and at no others."""
    program = struct.pack("HBBI", 0x20, 0, 0, 0)
    for left, number in zip(range(len(CALLS), 0, -1), CALLS, strict=True):
        program += struct.pack("HBBI", 0x15, left, 0, number)
    program += struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
    program += struct.pack("HBBI", 0x06, 0, 0, 0x7FF00000)
    kept = ctypes.create_string_buffer(program)
    told = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(kept))
    if libc.prctl(22, 2, ctypes.c_char_p(told), 0, 0):
        raise OSError(ctypes.get_errno(), "no filter of system calls")


class Traced:
    """The command's processes, which stand still while one of them is looked at."""

    def __init__(self, log, what, at):
        self.log, self.what, self.at, self.count = log, what, at, 0
        self.known, self.code, self.first = set(), 0, 0

    def run(self, words):
        self.first = first = os.fork()
        if not first:
            libc.ptrace(TRACEME, 0, None, None)
            os.kill(os.getpid(), signal.SIGSTOP)
            only_calls_of_interest()
            os.execvp(words[0], words)
        os.waitpid(first, 0)
        libc.ptrace(SETOPTIONS, first, None, OPTIONS)
        libc.ptrace(CONT, first, None, None)
        self.known.add(first)
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, ALL_CHILDREN)
                if os.WIFSTOPPED(status):
                    self.stopped(pid, status)
                elif pid == first:
                    self.code = os.waitstatus_to_exitcode(status)
                    self.log.flush()
                    if self.what.startswith("SIG"):
                        print(f"ended with {self.code}", flush=True)
        return self.code

    def stopped(self, pid, status):
        event, number = status >> 16, os.WSTOPSIG(status)
        if event == CHOSEN:
            self.called(pid)
        # A process begins with a stop that nobody has sent.
        begun = pid not in self.known and number == signal.SIGSTOP
        self.known.add(pid)
        libc.ptrace(CONT, pid, None, 0 if event or begun else number)

    def called(self, pid):
        registers = (ctypes.c_ulonglong * 27)()
        libc.ptrace(GETREGS, pid, None, registers)
        if not (where := changed(pid, registers)):
            return
        self.count += 1
        self.log.write(f"{CALLS[registers[CALL]]} {where}\n")
        if self.count == self.at:
            self.act(pid, registers)

    def act(self, pid, registers):
        if self.what.startswith("SIG"):
            os.kill(self.first, signal.Signals[self.what])
        elif self.what == "one":
            os.kill(pid, signal.SIGKILL)
        elif self.what == "kill":
            for one in self.known:
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
        else:
            registers[CALL], registers[RAX] = 2**64 - 1, 2**64 - int(self.what)
            libc.ptrace(SETREGS, pid, None, registers)


def changed(pid, registers):
    """What the call would change; empty when nothing that outlives the processes."""
    call = registers[CALL]
    if call in OPENS:
        at, flags = (RSI, RDX) if call == 257 else (RDI, RSI)
        where = text(pid, registers[at]) if registers[flags] & FOR_WRITING else ""
    elif call in WRITES or call in (73, 74, 75):
        where = os.readlink(f"/proc/{pid}/fd/{registers[RDI]}")
    else:
        where = " ".join(filter(None, (text(pid, registers[one]) for one in (RDI, RSI)))) or "."
    return "" if where.startswith(("/dev/", "pipe:", "socket:")) else where


def text(pid, at):
    with suppress(OSError, ValueError, OverflowError), open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(at)
        return memory.read(200).split(b"\0")[0].decode("ascii")
    return ""


if __name__ == "__main__":
    with open(sys.argv[1], "w") as log:
        code = Traced(log, sys.argv[2], int(sys.argv[3])).run(sys.argv[4:])
    sys.exit(code if code >= 0 else 128 - code)
