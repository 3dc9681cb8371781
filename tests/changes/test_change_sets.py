"""Change sets that overlap, in random schedules; other users, and reboots."""

import os
import random

import pytest
from knobs import Bench

from labkit.changes.journal_lines import decoded

pytestmark = pytest.mark.slow

PROGRAMS = ("mount", "unshare")

KEYS = ("a", "b", "c")


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
