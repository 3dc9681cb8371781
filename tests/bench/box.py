"""How soon the lab in a box is there and gone, what it takes, and what its guests are worth.

Times are against a target in seconds, or against the same made by hand in the same run.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from _figures import at_least, at_most, median, seconds, write

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from labkit import box
from labkit.box.cgroup import Cgroup
from labkit.box.guests import accelerator
from labkit.lab import opened
from tests.helpers.sshd import reached, serving

PROGRAMS = ("ip", "iperf3", "ssh-keygen")

ROUNDS, NAME = 3, os.environ.get("LABKIT_TEST_BOX", "bench")
HOSTS, GUESTS = 32, 8
UML = "".join(f'[guests.g{n}]\non = "h{n % 2}"\n' for n in range(GUESTS))
TCG = '[hosts.h0]\n[guests.g0]\non = "h0"\naccelerator = "qemu"\nmemory = "256M"\nvcpus = "1"\n'
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


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


# In mininet's manner: one by one, a namespace, a link to a bridge, and an sshd in it.
def by_hand(count):
    """Seconds until as many bare namespaces with an sshd each have answered, and to their end."""
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder, "key")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        Path("/run/sshd").mkdir(exist_ok=True)
        names, daemons = [f"lkb{n}" for n in range(count)], []
        begun = time.perf_counter()
        try:
            for n, name in enumerate(names):
                daemons.append(_by_hand_one(n, name, key))
            for daemon in daemons:
                next(line for line in daemon.stderr if b"Server listening" in line)
            up = time.perf_counter() - begun
        finally:
            down = seconds(lambda: _by_hand_ended(names, daemons))
        return up, down


def _by_hand_one(n, name, key):
    address = f"192.0.2.{n + 1}"
    for words in (f"ip netns add {name}", f"ip link add {name} type veth peer name e netns {name}",
                  f"ip link set {name} up", f"ip -n {name} addr add {address}/32 dev e",
                  f"ip -n {name} link set e up", f"ip -n {name} link set lo up"):  # fmt: skip
        subprocess.run(words.split(), check=True, **QUIET)
    words = ["ip", "netns", "exec", name, "/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-h",
             str(key), "-o", f"ListenAddress={address}", "-o", "PidFile=none"]  # fmt: skip
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _by_hand_ended(names, daemons):
    for daemon in daemons:
        daemon.kill()
        daemon.wait()
    for name in names:
        subprocess.run(["ip", "link", "delete", name], **QUIET)
        subprocess.run(["ip", "netns", "delete", name], **QUIET)


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


# A loop of the shell; a file written and read back; TCP from the client, by what is free.
LOOP = ("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
DISK = ("sh", "-c", "head -c 200m /dev/zero > /tmp/f && cat /tmp/f > /dev/null; rm -f /tmp/f")
TAKE = "iperf3 -s -4 -B {} -p 5999 >/dev/null 2>&1 & echo $!"


def worth():
    """Seconds of the loop and the disk, and Mbit/s, of a host and of its guest, in turns."""
    found = {role: ([], [], []) for role in ("server", "guest")}
    with opened(box.up(NAME, made_of="pair")) as lab:
        for role in found:
            lab.host(role).check("sh", "-c", TAKE.format(lab.host(role).address))
        for _ in range(5):
            for role, (loop, disk, net) in found.items():
                loop.append(seconds(lambda role=role: lab.host(role).check(*LOOP)))
                disk.append(seconds(lambda role=role: lab.host(role).check(*DISK)))
                net.append(_mbit(lab.host("client"), lab.host(role).address))
    box.down(NAME)
    return {role: tuple(map(median, columns)) for role, columns in found.items()}


def _mbit(client, address):
    words = ("iperf3", "-4", "-c", address, "-p", "5999", "-t", "1", "--json")
    answer = json.loads(client.check(*words))
    return answer["end"]["sum_received"]["bits_per_second"] / 1e6


def target(id, what, ours, most):
    """Less is better, by a figure that was set beforehand."""
    return at_most(id, what, ours, "the target", most, 1)


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
    hands, hands_down = zip(*(by_hand(HOSTS) for _ in range(ROUNDS)), strict=True)
    found = {count: several(hosts(count)) for count in (8, 16, HOSTS)}
    each = {count: up / count for count, (up, _) in found.items()}
    for count in (16, HOSTS):
        yield at_most(f"linear-{count}", f"{count} hosts, s for each", each[count],
                      "8 hosts, s for each", each[8], 1.2)  # fmt: skip
    up, down = found[HOSTS]
    yield target("hosts-target", f"{HOSTS} hosts, to the first command of the last, s", up, 1.2)
    yield at_most("hosts", f"{HOSTS} hosts, s", up, "as many namespaces with sshd, one by one, s",
                  median(hands), 1)  # fmt: skip
    yield at_most("hosts-down", f"{HOSTS} hosts down, s", down, "the same by hand, s",
                  median(hands_down), 1)  # fmt: skip
    both, down = several(hosts(HOSTS) + UML, 1)
    yield target("both", f"{HOSTS} hosts and {GUESTS} guests, s", both, 8)
    yield target("both-down", f"{HOSTS} hosts and {GUESTS} guests down, s", down, 1)


def sizes():
    each, guest = memory()
    yield target("host-memory", "memory of a host, MiB", each, 10)
    yield target("guest-memory", "memory of a guest of 128 MiB, MiB", guest, 128 + 60)


def guests():
    found = worth()
    (loop, disk, net), (guest_loop, guest_disk, guest_net) = found["server"], found["guest"]
    yield at_most("cpu", "a loop in the guest, s", guest_loop, "on its host, s", loop, 2)
    yield at_most("disk", "200 MiB written and read in the guest, s", guest_disk,
                  "on its host, s", disk, 4)  # fmt: skip
    yield at_least("net", "TCP to the guest, Mbit/s", guest_net, "to its host, Mbit/s", net, 0.1)


def main():
    box.down(NAME)
    parts = {part.__name__: part for part in (times, at_scale, sizes, guests)}
    try:
        write("box", [figure for name in sys.argv[1:] or parts for figure in parts[name]()])
    finally:
        box.down(NAME)


if __name__ == "__main__":
    main()
