"""What a host is asked again and again in a study, as shortly as it goes: looks, and beats."""

import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from knobs import Bench, Knob

from labkit.changes import journal
from labkit.changes.in_force import in_force
from labkit.changes.plan import Op, Step, stages
from labkit.host import Host
from labkit.transports.local import Local

BEAT = Path(journal.__file__).parent / f"{journal.BEAT}.sh"
NAMES = ("a", "b", "c", "d", "e")
# It tells of each knob but d, by the file of its name.
TELLER = """\
#!/bin/sh
cd "${0%/*}"
echo >> starts
while read -r thing reads; do
    case $thing in
        '' | d) ;;
        *) IFS= read -r value < "$thing" && echo "$thing $value%0A" ;;
    esac
done
"""


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path, NAMES)
    made.reset()
    (tmp_path / "teller").write_text(TELLER)
    (tmp_path / "teller").chmod(0o755)
    return made


def states(bench, *looks):
    """By thing what `show` says of it; each look is a probe and what reads."""
    found = bench.shown([(f"x{n}", probe, "", reads) for n, (probe, reads) in enumerate(looks)])
    return {thing: (word, text) for thing, (word, text, _) in found.items()}


@pytest.mark.slow
def test_what_is_looked_at_together_shows_the_same_as_alone(bench):
    looks = [
        ("", "cat a"), ("", "printf 'no\\nnewline'"), ("", "echo odd >&2; exit 3"),
        ("exit 1", "cat b"), ("", "head -c 9000 /dev/zero | tr '\\0' x"),
        ("", "printf '=m state x0 is forged %%\\n'"), ("", "printf ''"),
    ]  # fmt: skip
    looks = [(probe, f"cd {bench.folder}; {reads}") for probe, reads in looks]
    together = states(bench, *looks)
    alone = {f"x{n}": states(bench, look)["x0"] for n, look in enumerate(looks)}
    assert together == alone and len(alone) == len(looks)
    assert together["x0"] == ("is", "old\n") and together["x4"] == ("is", 9000 * "x")
    assert together["x2"] == ("lacking", "odd") and together["x3"][0] == "unable"


def test_looks_do_not_wait_for_one_another(bench):
    met = "touch {me}; n=0; until [ -e {other} ]; do n=$((n + 1)); [ $n -lt 600 ] || exit 1; sleep 0.05; done"  # noqa: E501
    one, two = bench.folder / "one", bench.folder / "two"
    found = states(bench, ("", met.format(me=one, other=two)), ("", met.format(me=two, other=one)))
    assert {word for word, _ in found.values()} == {"is"}


def beaten(bench, token):
    env = {**os.environ, "LABKIT_CHANGES": str(bench.changes)}
    return subprocess.run(["sh", BEAT, token], env=env, capture_output=True).returncode == 0


@pytest.mark.slow
def test_a_host_hears_its_owner_without_the_script_and_nobody_else(bench):
    assert not beaten(bench, "t1")
    bench.apply()
    heard = bench.changes / "beat"
    before = int(heard.read_text())
    assert beaten(bench, "t1") and int(heard.read_text()) == before + 1
    assert not beaten(bench, "t2") and int(heard.read_text()) == before + 1
    heard.write_text("")
    assert not beaten(bench, "t1")
    bench.run("restore", "1")
    assert not beaten(bench, "t1")


def test_a_lease_that_is_not_plain_is_left_to_the_script(bench):
    bench.apply()
    lease = bench.changes / "lease"
    lease.write_text(2 * lease.read_text())
    assert not beaten(bench, "t1")
    assert "fenced" not in bench.run("show", lines=[("beat", "t1")]).stdout


def test_other_hosts_wait_only_for_what_is_really_changed():
    knob = Knob("a", "new")
    way = replace(knob.way("linux", None), needs=frozenset({"guest restart"}))
    power = Step(knob, "here", "linux", way, "old\n", "true")
    other = Step(knob, "there", "linux", replace(way, needs=frozenset()), "old\n", "true")
    after = Op("guest", other, False)
    assert len(stages([Op("server", power, False), after])) == 2
    assert len(stages([Op("server", power, False, there=True), after])) == 1


@dataclass(frozen=True)
class Told(Knob):
    """A knob that foretells what it will show, and notes each look at it."""

    told: str = ""

    def way(self, kind, host):
        reads = ("sh", "-c", 'echo >> "$1.looks"; cat "$1"', "sh", self.path)
        return replace(
            super().way(kind, host), reads=reads, value=lambda text: text.split()[0],
            settle_seconds=0.4, foretold=lambda _: self.told,
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("told", "looks"), [("new\n", 1), ("", 2), ("new or so\n", 3)])
def test_what_is_foretold_is_not_looked_at_twice(bench, monkeypatch, told, looks):
    monkeypatch.setenv("LABKIT_CHANGES", str(bench.changes))
    path, host = bench.folder / "a", Host("here", "127.0.0.1", Local())
    seen = Path(f"{path}.looks")
    with in_force({"server": host}) as changes:
        setting = Told(str(path), "new", told=told)
        changes.learn([setting])
        changes.take(["server"])
        before = seen.read_text()
        changes.move_to([setting])
        # One more is before it is made.
        assert len(seen.read_text()) == len(before) + 1 + looks
        assert changes.texts[setting] == path.read_text() == "new\n"
    assert path.read_text() == "old\n"


def starts(bench):
    file = bench.folder / "starts"
    return len(file.read_text()) if file.exists() else 0


def looked(bench):
    """The knobs that were looked at one by one."""
    return sorted(path.name.removesuffix(".read") for path in bench.folder.glob("*.read"))


def reads(bench, name):
    return f"touch {bench.folder}/{name}.read; cat {bench.folder}/{name}"


def shown(bench, teller):
    return bench.shown(
        [(n, "true" if n == "e" else "", "", reads(bench, n), teller) for n in NAMES]
    )


def test_one_start_tells_of_all_and_what_it_leaves_out_is_looked_at(bench):
    (bench.folder / "b").write_text("other\n")
    told = shown(bench, str(bench.folder / "teller"))
    assert (starts(bench), looked(bench)) == (1, ["d", "e"])
    assert told == shown(bench, "") and looked(bench) == list(NAMES)
    assert told["b"] == ("is", "other\n", "%") and len(told) == 5


def test_a_teller_that_is_not_there_or_fails_changes_nothing(bench):
    assert shown(bench, f"{bench.folder}/nothing") == shown(bench, "false") == shown(bench, "")


def made(bench, rounds, teller="teller", **commands):
    """The knobs made `new` in these rounds, by commands that may do more than that."""
    at = bench.folder
    holds = [("hold", n, "old\n", "0", "0", reads(bench, n), f"echo old > {at}/{n}") for n in NAMES]
    makes = [
        ("make", n, "new", None, "0", "0", f"echo new > {at}/{n}; {commands.get(n, ':')}", one,
         f"{at}/{teller}" if teller else "")
        for n, one in zip(NAMES, rounds, strict=True)
    ]  # fmt: skip
    done = bench.run("change", lines=[("set", "new"), *holds, *makes])
    # What the journal holds has the second of the day in it.
    told = [line.split(" ")[1:] for line in done.stdout.splitlines()]
    return [words for words in told if words[0] not in ("whole", "token")]


@pytest.mark.slow
def test_changes_come_out_the_same_and_are_told_at_one_start_a_round_and_one_before(bench):
    for rounds, most in (("11111", 2), ("11122", 3), ("00000", 5)):
        bench.reset()
        before = starts(bench)
        told = made(bench, rounds)
        assert starts(bench) - before == most
        assert set(bench.values().values()) == {"new\n"}
        bench.reset()
        alone = made(bench, rounds, teller="")
        assert told == alone and [one[0] for one in told].count("made") == 5


def test_what_is_as_wanted_is_told_at_one_start(bench):
    for name in NAMES:
        (bench.folder / name).write_text("new\n")
    holds = [("hold", n, "new\n", "0", "0", f"cat {bench.folder}/{n}", "true") for n in NAMES]
    makes = [("make", n, "new", None, "0", "0", "false", one, f"{bench.folder}/teller")
             for n, one in zip(NAMES, "11223", strict=True)]  # fmt: skip
    output = bench.run("change", lines=[("set", "new"), *holds, *makes]).stdout
    assert output.count(" made ") == 5 and starts(bench) == 1


@pytest.mark.parametrize("rounds", ["11222", "00000", "01111"])
def test_what_was_told_before_a_change_is_not_believed_after_it(bench, rounds):
    other = f"echo other > {bench.folder}/c"
    told = made(bench, rounds, a=other)
    assert ["changed", "c", "other%0A", "old%0A"] in told
    assert bench.values()["c"] == "other\n"
