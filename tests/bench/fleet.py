"""How closely clients start together, by their hosts' clocks: 2, 8 and 32 sshd's of this machine.

They share its clock, so that the spread is the true one; and its CPUs, on which each start takes
its turn. The peer tells one host after another to start, each on a thread of its own.
"""

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

from _figures import at_most, median, target, write
from _hosts import addresses

from labkit.fleet.fleet import Fleet
from labkit.host import Host
from labkit.transports.ssh import Ssh

PROGRAMS = ("perl",)

ROUNDS, SIZES, WITHIN_MS = 9, (2, 8, 32), 5.0
TELLING = ("sh", "-c", "date +%s.%N; sleep 0.5")


def spread(fleet):
    with fleet.together(dict.fromkeys(fleet.hosts, ("sleep", "0.5"))) as line:
        started = line.go()
        started.check()
        return 1000 * started.spread, 1000 * started.bound


def each_on_a_thread(fleet):
    with ThreadPoolExecutor(len(fleet.hosts)) as pool:
        begun = list(pool.map(lambda host: host.check(*TELLING), fleet.hosts.values()))
    return 1000 * (max(map(float, begun)) - min(map(float, begun)))


WAIT = """$| = 1; use Time::HiRes qw(time sleep);
sleep($ARGV[0] - time); printf("%.6f\\n", time); exec "sleep", 0.5"""


def without_ssh(size):
    """Milliseconds between processes of this machine that wait for one moment, as ours do."""
    words = ["perl", "-e", WAIT, str(time.time() + 0.1 + 0.02 * size)]
    waiting = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(size)]
    begun = [float(one.communicate()[0]) for one in waiting]
    return 1000 * (max(begun) - min(begun))


def named(found):
    """Hosts at these addresses, by names of their own."""
    each = (replace(at, name=f"host{number}") for number, at in enumerate(found))
    return {at.name: Host(at.name, "127.0.0.1", Ssh(at)) for at in each}


def main():
    figures = []
    with addresses(max(SIZES)) as (_, found), closing(Fleet(named(found))) as every:
        every.run("true").check()
        for size in SIZES:
            fleet = Fleet(dict(list(every.hosts.items())[:size]))
            ours = [spread(fleet) for _ in range(ROUNDS)]
            peer = median([each_on_a_thread(fleet) for _ in range(ROUNDS)])
            alone = median([without_ssh(size) for _ in range(ROUNDS)])
            found, bound = (median(column) for column in zip(*ours, strict=True))
            print(f"{size} hosts, {os.cpu_count()} CPUs: known to {bound:.2f} ms")
            figures += [
                target(f"within-{size}", f"{size} clients start within, ms", found, WITHIN_MS),
                at_most(f"spread-{size}", f"{size} clients start within, ms", found,
                        "a command on each, a thread each, ms", peer, 1),
                at_most(f"alone-{size}", f"{size} clients start within, ms", found,
                        "processes that wait here, no SSH, ms", alone, 2),
            ]  # fmt: skip
    write("fleet", figures)


if __name__ == "__main__":
    main()
