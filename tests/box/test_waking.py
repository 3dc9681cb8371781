"""A guest of User-Mode Linux wakes up whenever something comes for it."""

import os
import platform
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from labkit.box.guests import waking
from labkit.workloads.sockperf import Sockperf

PROGRAMS = ("chrt", "objdump")

LATE = 5000
"""Microseconds: what a guest that slept on exceeds, and what a scheduler takes seldom."""


@contextmanager
def guest(lab, wakeups):
    """The guest alone on its CPU, with wake-ups of this kind."""
    restarted(lab, wakeups)
    try:
        yield lab.host("guest")
    finally:
        restarted(lab, "kept")
        lab.host("server").check("guest", "set", "policy=other")


def restarted(lab, wakeups):
    server = lab.host("server")
    server.check("guest", "set", f"wakeups={wakeups}", "policy=fifo")
    if server.check("guest", "get", "wakeups").strip() != wakeups:
        lab.host("guest").close()
        server.check("guest", "stop")
        server.check("guest", "start", seconds=90)


def answers(lab, at, seconds, protocol="tcp"):
    """Asked at real-time priority, so that little of what else runs here is among them."""
    sockperf = Sockperf(duration=seconds, protocol=protocol)
    with sockperf.asking({"client": lab.host("client"), "server": at}) as words:
        text = lab.host("client").check("chrt", "-f", "1", *words, seconds=90)
    return sockperf.parse(text)[0].values


def late(values):
    return float(np.mean(values > LATE))


def waiting(values):
    """The share of the time in which a late answer was waited for."""
    return float(values[values > LATE].sum() / values.sum())


@pytest.mark.box
def test_wake_ups_are_kept_unless_they_are_asked_to_be_lossy(lab):
    assert lab.wakeups == "kept"
    assert lab.host("server").check("guest", "get", "wakeups") == "kept\n"


@pytest.mark.box
def test_a_guest_that_keeps_its_wake_ups_is_late_a_fifth_as_often_or_less(lab):
    """The machine may be busy, so both are measured within the same half-minute."""
    with guest(lab, "lossy") as lossy:
        lost = answers(lab, lossy, 4)
    with guest(lab, "kept") as asked:
        kept = answers(lab, asked, 4)
    assert late(kept) < late(lost) / 5, (late(kept), late(lost))
    assert waiting(kept) < waiting(lost) / 2, (waiting(kept), waiting(lost))


@pytest.mark.box
@pytest.mark.torture
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_fifty_thousand_answers_come_in_time(lab, protocol):
    """On a busy machine one in 10,000 may be late, beside the share that its server is late."""
    quiet = os.getloadavg()[0] < 1
    with guest(lab, "kept") as kept:
        found = np.concatenate([answers(lab, kept, 15, protocol) for _ in range(3)])
    allowed = 0 if quiet else 1e-4 + late(answers(lab, lab.host("server"), 15, protocol))
    assert len(found) >= 50_000
    assert late(found) <= allowed, (late(found), allowed, np.percentile(found, [50, 99, 99.9, 100]))


# The library that keeps them, in a real process that sleeps as a guest's kernel does.
SLEEPS = """\
import ctypes, os, select, signal, sys, time
libc, heard = ctypes.CDLL(None), []
signal.signal(signal.SIGIO, lambda *_: heard.append("io"))
signal.signal(signal.SIGALRM, lambda *_: heard.append("alarm"))
epoll, event = libc.epoll_create(8), os.eventfd(0)
polled = select.epoll.fromfd(epoll)
polled.register(event, select.EPOLLIN | select.EPOLLET)
os.eventfd_write(event, 1) if "ready" in sys.argv else signal.setitimer(signal.ITIMER_REAL, 0.2)
begun = time.monotonic()
libc.sigsuspend(ctypes.create_string_buffer(128))
print(*heard, "later" if time.monotonic() - begun > 0.1 else "at once")
"""

TWO_READY = """\
import ctypes, os, select
libc = ctypes.CDLL(None)
epoll = libc.epoll_create(8)
polled = select.epoll.fromfd(epoll)
for event in (os.eventfd(1), os.eventfd(1)):
    polled.register(event, select.EPOLLIN | select.EPOLLET)
told = ctypes.create_string_buffer(12 * 8)
print(*(libc.epoll_wait(epoll, told, 8, 0) for _ in range(3)))
"""

# A buffer that has no room for all registers is read into, but not written from, by the kernel.
REGISTERS = """\
import ctypes, os, signal, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
if not (pid := os.fork()):
    libc.ptrace(0, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
os.waitpid(pid, 0)
room = ctypes.create_string_buffer(832)
vector = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(room), 832), 16)
read = libc.ptrace(0x4204, pid, 0x202, vector)
written = libc.ptrace(0x4205, pid, 0x202, vector)
whole = ctypes.create_string_buffer(27 * 8)
libc.ptrace(12, pid, None, whole)
word = libc.ptrace(3, pid, 16 * 8, None)
nobody = libc.ptrace(12, os.getpid(), None, whole), ctypes.get_errno()
os.kill(pid, signal.SIGKILL)
print(read, written, word == struct.unpack_from("q", whole, 16 * 8)[0], *nobody)
"""
LABEL = re.compile(r"^\w+: ")


@pytest.fixture
def library(tmp_path):
    if platform.machine() != "x86_64":
        pytest.skip("the library is for x86-64")
    file = tmp_path / waking.LIBRARY
    file.write_bytes(waking.library())
    return file


def said(program, *words, library="", seconds=20):
    """What a process says that has the library, or none."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=seconds,
        env={"LD_PRELOAD": str(library)} if library else {},
    )  # fmt: skip
    assert not done.stderr
    return done.stdout.strip()


def test_a_sleep_does_not_begin_while_there_is_something_to_read_that_no_signal_told_of(library):
    assert said(SLEEPS, "ready", library=library) == "io at once"


@pytest.mark.slow
def test_without_the_library_it_does(tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        said(SLEEPS, "ready", seconds=2)


@pytest.mark.slow
def test_a_signal_ends_a_sleep_and_none_is_made_up(library):
    assert said(SLEEPS, "idle", library=library) == "alarm later"


def test_epoll_tells_of_one_file_at_a_time(library):
    assert said(TWO_READY, library=library) == "1 1 0"


@pytest.mark.parametrize(
    ("functions", "written"), [(tuple(waking.FUNCTIONS), 0), (("ptrace",), 0), ((), -1)]
)
def test_registers_are_taken_from_a_guest_that_knows_only_some_of_them(library, functions, written):
    if functions:
        library.write_bytes(waking.library(functions))
    found = said(REGISTERS, library=library if functions else "")
    assert found == f"0 {written} True -1 3"


def test_the_machine_code_is_what_its_listing_says(library):
    if not shutil.which("objdump"):
        pytest.skip("no objdump")
    raw = library.with_name("code")
    for listing in waking.FUNCTIONS.values():
        raw.write_bytes(waking._assemble(listing))
        words = ("objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", str(raw))
        lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        named = [line.split("\t")[2].split()[0] for line in lines.splitlines() if "\t" in line]
        assert named == [LABEL.sub("", line[22:]).split()[0] for line in listing.splitlines()]


def test_what_is_no_linux_uml_cannot_take_it(tmp_path):
    (tmp_path / "text").write_text("sigsuspend")
    assert not waking.possible(tmp_path / "text")
    assert not waking.possible(tmp_path / "absent")
    assert not waking.possible(Path("/bin/true"))
