"""How soon the lab in a box is there, and gone, against one sshd started by hand."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _figures import at_most, median, seconds, write

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from labkit import box
from labkit.lab import opened
from tests.sshd import reached, serving

ROUNDS, NAME = 5, "bench"


def first_command(server_host):
    server_host.check("true")
    server_host.close()


def one_sshd():
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        with serving(Path(folder)) as server, reached(server.address()) as plain:
            first_command(plain)
            return time.perf_counter() - begun


# A kernel and its first program, which ends at once: less than this no such guest can take.
def bare_kernel():
    words = ["linux.uml", "mem=128M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
             "init=/bin/true", "con=null", "con0=null,fd:1", "quiet"]  # fmt: skip
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "TMPDIR": "/dev/shm", "PATH": os.environ["PATH"]}
        subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, capture_output=True)


def one_box():
    said = []
    begun = time.perf_counter()
    path = box.up(NAME, lambda text: said.append((text, time.perf_counter() - begun)))
    with opened(path) as lab:
        first_command(lab.host("guest"))
    whole = time.perf_counter() - begun
    hosts = next(when for text, when in said if text.startswith("hosts are up"))
    return hosts, whole, seconds(lambda: box.down(NAME))


def main():
    box.down(NAME)
    try:
        boxes, peers = [one_box() for _ in range(ROUNDS)], [one_sshd() for _ in range(ROUNDS)]
        kernel = median([seconds(bare_kernel) for _ in range(ROUNDS)])
    finally:
        box.down(NAME)
    hosts, whole, down = (median(column) for column in zip(*boxes, strict=True))
    peer, name = median(peers), "one sshd by hand, to its first command, s"
    write("box", [
        at_most("hosts", "both hosts greet, s", hosts, name, peer, 2),
        at_most("guest", "box up, to the guest's first command, s", whole,
                "a bare guest kernel to its first program, s", kernel, 2),
        at_most("down", "box down, s", down, name, peer, 1),
    ])  # fmt: skip


if __name__ == "__main__":
    main()
