"""Several looks by one command that tells of many things: what that says counts as a look does."""

import pytest
from knobs import Bench

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
