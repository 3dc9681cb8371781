"""Is the host busy with something else?"""

from collections.abc import Iterator

from labkit.check import OK, WARNING, Check, Finding, Subject
from labkit.errors import LabkitError
from labkit.gates.gate import collect, gates, tripped

APART = 1.0
"""Seconds between two looks at what the host counts."""
NOISE = ("steal", "throttling", "swap", "foreign load")


def _look(place: Subject) -> Iterator[Finding]:
    before = collect(place.host)
    place.shown(f"sleep {APART:g}")
    after = collect(place.host)
    try:
        gates_of = gates(before, after, APART)
    except LabkitError as error:
        yield Finding(WARNING, "its load cannot be read", error.what, "top -b -n 1")
        return
    wrong = [gate for gate in tripped(gates_of) if gate.name in NOISE]
    for gate in wrong:
        yield Finding(WARNING, gate.why, fix="top -b -n 1 | head -n 15   # and end what is busy")
    if not wrong:
        yield Finding(
            OK, "; ".join(gate.why for gate in gates_of if gate.name in NOISE and gate.ok)
        )


check = Check("nothing else is busy", _look, "kind", kinds=("linux",))
