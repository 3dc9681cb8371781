"""How soon the lab in a box is there and gone, and what it takes, against targets."""

import os
import re
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from _figures import at_most, median, run, seconds, target
from sshd import reached, serving

from labkit import box
from labkit.box.cgroup import Cgroup
from labkit.box.guests import accelerator
from labkit.lab import opened

ROUNDS, NAME = 3, os.environ.get("LABKIT_TEST_BOX", "bench")
HOSTS, GUESTS = 32, 8
UML = "".join(f'[guests.g{n}]\non = "h{n % 2}"\n' for n in range(GUESTS))
TCG = '[hosts.h0]\n[guests.g0]\non = "h0"\naccelerator = "qemu"\nmemory = "256M"\nvcpus = "1"\n'


def hosts(count):
    return "".join(f"[hosts.h{n}]\n" for n in range(count))


@contextmanager
def described(text):
    """A topology's name, or the file of one."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "bench.toml")
        file.write_text(text)
        yield str(file) if "[" in text else text


def came_and_went(text):
    """Seconds to the first command on the last machine, and to the end of `down`."""
    with described(text) as made_of:
        begun = time.perf_counter()
        path = box.up(NAME, made_of=made_of)
        with opened(path) as lab:
            list(lab.hosts.values())[-1].check("true")
        return time.perf_counter() - begun, seconds(lambda: box.down(NAME))


def several(text, rounds=ROUNDS):
    """The medians of both."""
    return tuple(map(median, zip(*(came_and_went(text) for _ in range(rounds)), strict=True)))


def one_sshd():
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        with serving(Path(folder)) as server, reached(server.address()) as plain:
            plain.check("true")
            return time.perf_counter() - begun


def own_mib(wanted=lambda words: True):
    """What the processes of the box have for themselves: shared pages count by their shares."""
    total = 0
    for pid in Cgroup.of(NAME).pids():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text()
            if wanted(words):
                rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
                total += int(re.search(r"^Pss: +(\d+)", rollup, re.MULTILINE)[1])
        except OSError:
            pass
    return total / 1024


def memory():
    """MiB of each host, by 16 of them, and of a guest beyond what it sees as its memory."""
    with described(hosts(16)) as made_of:
        box.up(NAME, made_of=made_of)
    each = own_mib() / 16
    box.down(NAME)
    box.up(NAME, made_of="pair")
    guest = own_mib(lambda words: words.startswith("linux.uml"))
    box.down(NAME)
    return each, guest


def times():
    one, _ = several(hosts(1))
    peer, name = median([one_sshd() for _ in range(ROUNDS)]), "one sshd by hand, s"
    uml, _ = several('[hosts.h0]\n[guests.g0]\non = "h0"\n')
    pair, down = several("pair")
    eight, _ = several(hosts(2) + UML, 2)
    yield at_most("host", "one host, to its first command, s", one, name, peer, 2)
    yield target("host-target", "one host, to its first command, s", one, 0.15)
    yield target("uml", "one guest of UML, to its first command, s", uml, 2.5)
    if not accelerator.lacking():
        tcg, _ = several(TCG, 2)
        yield target("tcg", "one guest of QEMU, to its first command, s", tcg, 11)
    yield target("pair", "the default topology, to its guest's first command, s", pair, 3)
    yield target("down", "box down, s", down, 1)
    yield target("guests", f"{GUESTS} guests of UML, s", eight, 8)


def at_scale():
    found = {count: several(hosts(count)) for count in (8, 16, HOSTS)}
    each = {count: up / count for count, (up, _) in found.items()}
    for count in (16, HOSTS):
        yield at_most(f"linear-{count}", f"{count} hosts, s for each", each[count],
                      "8 hosts, s for each", each[8], 1.2)  # fmt: skip
    up, down = found[HOSTS]
    yield target("hosts-target", f"{HOSTS} hosts, to the first command of the last, s", up, 1.2)
    yield target("hosts-down", f"{HOSTS} hosts down, s", down, 1)
    both, down = several(hosts(HOSTS) + UML, 1)
    yield target("both", f"{HOSTS} hosts and {GUESTS} guests, s", both, 8)
    yield target("both-down", f"{HOSTS} hosts and {GUESTS} guests down, s", down, 1)


def sizes():
    each, guest = memory()
    yield target("host-memory", "memory of a host, MiB", each, 10)
    yield target("guest-memory", "memory of a guest of 128 MiB, MiB", guest, 128 + 60)


def main():
    box.down(NAME)
    try:
        run("box", times, at_scale, sizes)
    finally:
        box.down(NAME)


if __name__ == "__main__":
    main()
