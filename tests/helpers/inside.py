"""Programs of the tests inside a host's network, with this machine's Python."""

import json
import subprocess
import sys

from labkit.box.folder import Folder

PROGRAMS = ("nsenter",)

CLOCKED = "import socket, sys, time\n"


def pid_of(box, role):
    return json.loads(Folder(box).pids.read_text())[role]


def started(box, role, program, *words):
    """The program, with its output to read."""
    command = ["nsenter", "-t", str(pid_of(box, role)), "-n", sys.executable, "-c",
               CLOCKED + program, *map(str, words)]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def said(box, role, program, *words):
    """What the program prints, to its end."""
    with started(box, role, program, *words) as process:
        text = process.stdout.read()
    assert process.returncode == 0
    return text


TAKES = """
with socket.create_server((sys.argv[1], 5001)) as door:
    print("open", flush=True)
    there, _ = door.accept()
    total, counted = 0, 0.0
    begun = time.perf_counter()
    while taken := len(there.recv(1 << 20)):
        now = time.perf_counter()
        # What filled the queues at first is not counted.
        if counted:
            total += taken
        elif now > begun + 0.5:
            counted = now
    print(8 * total / (time.perf_counter() - counted))
"""
GIVES = """
with socket.create_connection((sys.argv[1], 5001)) as there:
    end = time.perf_counter() + float(sys.argv[2])
    while time.perf_counter() < end:
        there.sendall(b"x" * 65536)
"""


def throughput(box, giver, taker, address, seconds=1.2):
    """Bits per second of one TCP connection."""
    with started(box, taker, TAKES, address) as process:
        assert process.stdout.readline() == "open\n"
        said(box, giver, GIVES, address, seconds)
        return float(process.stdout.read())
