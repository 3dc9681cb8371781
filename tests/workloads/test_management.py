"""A management server that is asked: what a run of it may not show, and what it counts."""

import pytest

from labkit.errors import ResultsError
from labkit.workloads.management import Management

ONE = "list 10.0.0.1 1.0 1.1 200 1\n"


def text(asked, **after):
    machines = "".join(f"machine 10.0.0.{n}\n[1.0] 64 bytes from x\n[1.1] 64 bytes from x\n"
                       for n in (8, 9))  # fmt: skip
    parts = {"asked": asked + machines, **after}
    return "".join(f"=== {name} ===\n{said}\n" for name, said in parts.items())


@pytest.mark.parametrize("after", [
    {"server": "200", "server2": "200"}, {"server": "0", "server2": "503"},
])  # fmt: skip
def test_both_hosts_are_asked_afterwards_and_one_alone_may_serve(after):
    with pytest.raises(ResultsError, match="one host may serve at a time"):
        Management.parse(text(ONE, **after))


def test_two_that_take_turns_are_a_split_brain_also_if_one_ends_in_time():
    both = ONE + "list 10.0.0.2 1.2 1.3 200 1\n"
    after = {"server": "0", "server2": "200"}
    assert Management.parse(text(both, **after))
    with pytest.raises(ResultsError, match="split brain"):
        Management.parse(text(both + "list 10.0.0.1 1.4 1.5 200 1\n", **after))


@pytest.mark.parametrize("listed, lost", [("change-1", 0), ("change-2", 1), ("", 1)])
def test_a_change_that_was_acknowledged_and_is_not_listed_is_counted(listed, lost):
    kept = text(ONE + "changed change-1\n", server="0", server2=f"200\n{listed}")
    assert [float(s.values[0]) for s in Management.parse(kept) if s.metric == "changes lost"] == [
        lost
    ]


def test_machines_that_never_answered_are_no_figure():
    silent = text(ONE, server="0", server2="200").replace("64 bytes from", "no answer from")
    with pytest.raises(ResultsError, match="did not answer at all"):
        Management.parse(silent)
