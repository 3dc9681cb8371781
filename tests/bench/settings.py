"""Twenty settings planned, journaled, made, verified and put back; against pyinfra's making alone.

On 1 and on 16 hosts, as they are and with a round trip of 20 ms. pyinfra looks at each value and
writes it: it neither reads back, nor remembers what was there, nor puts it back. It is installed by
pip, once, into out/bench/peers. All hosts are on this machine, and share its CPUs.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from _figures import at_most, median, seconds, write
from _hosts import addresses, as_json
from _peer_python import python_with
from knobs import Knob

from labkit.changes.in_force import in_force
from labkit.host import Host
from labkit.transports.ssh import Ssh

ROUNDS, SETTINGS, MANY, ROUND_TRIP = 3, 20, 16, 0.020


class Counting(Ssh):
    """Counts the commands: each is one round trip, as the connection is there already."""

    count = 0

    def run(self, words, **more):
        Counting.count += 1
        return super().run(words, **more)


@contextmanager
def hosts(count, round_trip):
    """A folder, and so many hosts, each an sshd with a journal of its own."""
    with addresses(count, round_trip) as (folder, found):
        hosts = {f"host{n}": Host(f"host{n}", "127.0.0.1", Counting(at))
                 for n, at in enumerate(found)}  # fmt: skip
        try:
            yield folder, hosts
        finally:
            for host in hosts.values():
                host.close()


def reset(folder, count):
    for n in range(count):
        for k in range(SETTINGS):
            (folder / f"host{n}-{k}").write_text("old\n")


def ours(folder, found):
    wanted = [On(str(folder / f"{name}-{k}"), "new", (), name)
              for name in found for k in range(SETTINGS)]  # fmt: skip
    with in_force(found) as changes:
        changes.move_to(wanted)
        changes.check(wanted)


class On(Knob):
    """A knob on one of many hosts."""

    def __init__(self, path, value, more, role):
        super().__init__(path, value, more)
        object.__setattr__(self, "role", role)


def theirs(python, folder, found):
    lines = [as_json(host.transport.at) for host in found.values()]
    (folder / "hosts.json").write_text(json.dumps(lines))
    script = Path(__file__).with_name("_pyinfra.py")
    words = [python, script, folder / "hosts.json", folder, str(SETTINGS)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=300,
                          env={"PATH": os.environ["PATH"], "HOME": str(folder)})  # fmt: skip
    if result.returncode:
        sys.exit(f"pyinfra: {result.stderr[-2000:]}")
    return float(result.stdout.splitlines()[-1])


def measured(python, count, round_trip, rounds=ROUNDS):
    """Seconds of ours and of pyinfra, in turn, and our round trips to each host."""
    times = []
    with hosts(count, round_trip) as (folder, found):
        for host in found.values():
            host.check("true")
        for _ in range(rounds):
            reset(folder, count)
            Counting.count = 0
            mine = seconds(lambda: ours(folder, found))
            trips = Counting.count / count
            reset(folder, count)
            times.append((mine, theirs(python, folder, found)))
    return *(median(column) for column in zip(*times, strict=True)), trips


def main():
    python = python_with("pyinfra")
    os.environ["LABKIT_OUT"] = tempfile.mkdtemp()
    one, pyinfra, trips = measured(python, 1, 0)
    far, pyinfra_far, _ = measured(python, 1, ROUND_TRIP)
    many, pyinfra_many, _ = measured(python, MANY, 0)
    many_far, pyinfra_many_far, _ = measured(python, MANY, ROUND_TRIP, 1)
    apply = "pyinfra's apply alone (s)"
    write("settings", [
        at_most("one-host", "20 settings on 1 host (s)", one, apply, pyinfra, 0.3),
        at_most("one-host-20ms", "the same at 20 ms (s)", far, apply, pyinfra_far, 0.3),
        at_most("round-trips", "round trips to a host", trips, "what it may be", 6, 1),
        at_most("16-hosts", "20 settings on 16 hosts (s)", many, apply, pyinfra_many, 0.3),
        at_most("16-hosts-20ms", "the same at 20 ms (s)", many_far, apply, pyinfra_many_far, 0.3),
        at_most("16-to-1-20ms", "16 hosts at 20 ms (s)", many_far, "1 host at 20 ms (s)", far, 2),
        # All share this machine's CPUs, so a host may cost as much as the first, but no more.
        at_most("linear", "16 hosts (s)", many, "16 x 1 host (s)", MANY * one, 1),
    ])  # fmt: skip


if __name__ == "__main__":
    main()
