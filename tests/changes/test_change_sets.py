"""Change sets that overlap, in random schedules; other users, reboots, and Ctrl-C."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from knobs import Bench

from labkit.changes.journal_lines import decoded

pytestmark = pytest.mark.slow

PROGRAMS = ("mount", "unshare")

KEYS = ("a", "b", "c")
HOME = Path(__file__).resolve().parents[2]


class Schedule:
    """One owner's change sets and somebody else's writes, at random, on the real script."""

    def __init__(self, folder, seed):
        self.bench, self.chance = Bench(folder, KEYS), random.Random(seed)
        self.bench.reset()
        self.open, self.theirs, self.number = [], {}, 0

    def values(self):
        return {name: text.strip() for name, text in self.bench.values().items()}

    def fresh(self, who):
        self.number += 1
        return f"{who}{self.number}"

    def begin(self):
        self.change("new")

    def again(self):
        if self.open:
            self.change(self.chance.choice(self.open))

    def change(self, which):
        names = self.chance.sample(KEYS, self.chance.randint(1, len(KEYS)))
        holds, makes = [], []
        for name in names:
            file, now = self.bench.folder / name, (self.bench.folder / name).read_text()
            undo = f"echo {now.strip()} > {file}"
            holds.append(("hold", name, now, "0", "0", f"cat {file}", undo))
            wanted = self.fresh("v")
            makes.append(("make", name, wanted, None, "0", "0", f"echo {wanted} > {file}"))
        said = self.ask("change", lines=[("set", which), *holds, *makes])
        self.open += [line.split()[2] for line in said if " set " in line and which == "new"]

    def third(self):
        name = self.chance.choice(KEYS)
        self.theirs[name] = self.fresh("t")
        (self.bench.folder / name).write_text(self.theirs[name] + "\n")

    def restore(self):
        if self.open:
            one = self.open.pop(self.chance.randrange(len(self.open)))
            self.ask("restore", one)

    def ask(self, verb, *words, **asked):
        flags = "joining" if self.open or verb == "restore" else "first"
        done = self.bench.run(verb, *words, flags=flags, **asked)
        assert "failed" not in done.stdout and not done.stderr, decoded(done.stdout) + done.stderr
        return done.stdout.splitlines()

    def run(self, steps):
        acts = [self.begin, self.begin, self.again, self.third, self.restore]
        done = []
        for _ in range(steps):
            act = self.chance.choice(acts)
            done.append(act.__name__)
            act()
        self.bench.restore(flags="breaking")
        expected = {name: self.theirs.get(name, "old") for name in KEYS}
        assert (self.values(), self.bench.left()) == (expected, []), done


def some(tmp_path, count):
    seed = int(os.environ.get("LABKIT_SEED", random.randrange(2**32)))
    print(f"LABKIT_SEED={seed}")
    for n in range(count):
        Schedule(tmp_path, f"{seed}/{n}").run(7)


# Everything is as it was at first, or as somebody else last made it, in whatever order sets end.
@pytest.mark.when_changed("labkit/changes/", "labkit/machine/stopping.py")
def test_change_sets_that_overlap_bring_back_what_was_there_or_what_others_made(tmp_path):
    some(tmp_path, 25)


@pytest.mark.torture
@pytest.mark.parametrize("piece", range(20))
def test_ten_thousand_schedules_of_overlapping_change_sets(tmp_path, piece):
    some(tmp_path, 500)


def test_the_outer_of_two_change_sets_put_back_first_brings_back_nothing_of_the_inner(tmp_path):
    bench = Bench(tmp_path, ("a",))
    bench.reset()
    bench.apply()
    file = tmp_path / "a"
    inner = [
        ("hold", "a", "new\n", "0", "0", f"cat {file}", f"echo new > {file}"),
        ("make", "a", "inner", None, "0", "0", f"echo inner > {file}"),
    ]
    bench.run("change", lines=[("set", "new"), *inner], flags="joining")
    assert "handed" in bench.run("restore", "1", flags="joining").stdout
    assert file.read_text() == "inner\n"
    bench.run("restore", "2", flags="joining")
    assert file.read_text() == "old\n" and bench.left() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a boot number of its own")
def test_after_a_reboot_what_is_ours_goes_back_and_what_others_made_stays(tmp_path):
    bench = Bench(tmp_path, ("gone", "ours", "theirs"))
    bench.reset()
    bench.apply()
    (tmp_path / "gone").write_text("old\n")
    (tmp_path / "theirs").write_text("third\n")
    (tmp_path / "boot").write_text("11111111-2222-3333-4444-555555555555\n")
    rebooted = (
        "unshare", "--mount", "sh", "-c", 'mount --bind "$0" /proc/sys/kernel/random/boot_id; '
        'exec "$@"', str(tmp_path / "boot"),
    )  # fmt: skip
    told = bench.run("hello", before=rebooted).stdout
    assert "lease rebooted" in told and "open 1" in told
    # The lease has died with the host, so that nobody needs to break it.
    output = bench.restore(before=rebooted).stdout
    assert "gone already" in output and "ours restored" in output and "theirs left" in output
    assert bench.values() == {"gone": "old\n", "ours": "old\n", "theirs": "third\n"}


SLOW = """
import sys, time
from dataclasses import replace
sys.path[:0] = [{tests!r}]
from knobs import Knob
from labkit.changes.in_force import applied
from labkit.host import Host
from labkit.transports.local import Local
class Slow(Knob):
    def way(self, kind, host):
        way = super().way(kind, host)
        return replace(way, writes=lambda value: (("sleep", "0.4"), *way.writes(value)))
with applied([Slow({a!r}, "new"), Slow({b!r}, "new")], {{"server": Host("here", "", Local())}}):
    print("in force", flush=True)
    time.sleep(0.3)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_a_stop_in_the_midst_of_a_change_puts_everything_back(tmp_path, number):
    bench = Bench(tmp_path)
    bench.reset()
    code = SLOW.format(
        tests=str(HOME / "tests/helpers"), a=str(tmp_path / "a"), b=str(tmp_path / "b")
    )
    env = {**os.environ, "LABKIT_CHANGES": str(bench.changes), "LABKIT_OUT": str(tmp_path / "out")}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=env, cwd=HOME, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    end = time.monotonic() + 30
    while not bench.left() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(0.5)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    if number == signal.SIGINT or "stopping after" in said:
        assert bench.values() == {"a": "old\n", "b": "old\n"} and bench.left() == [], said
    # What the killed process had started on the host may still come to its end.
    end = time.monotonic() + 20
    while (bench.values(), bench.left()) != ({"a": "old\n", "b": "old\n"}, []):
        assert time.monotonic() < end, (bench.values(), bench.left())
        # Its lease looks alive for some time more, so it is broken, as `restore --break` does.
        bench.restore(flags="breaking")
        time.sleep(0.2)
