"""The load generator: whether an open loop asked when it should have, by what its own text says.

How busy a CPU was says nothing of that: a client may spin until a request is due, as ping does
below 10 ms. A closed loop cannot be late, as it has no schedule; a program that no client loads has
none either. What is judged here is read from the raw text, so runs of any age are judged alike.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from labkit.errors import LabkitError
from labkit.gates.gate import Gate, percent
from labkit.results import Run
from labkit.workload import Workload
from labkit.workloads import _pairs as pairs

GATE, ROLE = "load generator", "client"
LATE = 0.05
"""The share of its schedule that an open loop may miss."""
MUTE = "what it printed does not say when requests were sent"


def of_text(load: Workload, text: str) -> Gate | None:
    """The gate on what a load printed; None where that has no schedule."""
    if load.loop != "open":
        return None
    try:
        shares = [load.behind(part) for part in pairs.texts(text).values()]
    except LabkitError as error:
        return Gate(GATE, None, error.what)
    late = [share for share in shares if share is not None]
    if not late:
        return Gate(GATE, None, MUTE)
    reason = f"by its own time stamps it missed {percent(max(late))} of the requests that were due"
    return Gate(GATE, max(late) <= LATE, reason)


Gates = Mapping[str, Mapping[str, str]]
"""Role -> gate -> why."""


def beside(
    trips: Gates, silent: Gates, loads: Iterable[Workload], raw: Mapping[str, str]
) -> tuple[Gates, Gates]:
    """The gates that tripped, and those that cannot say, with that of these loads' texts."""
    gates = [of_text(load, raw[f"{load.name}.txt"]) for load in loads]
    return (
        _with(trips, [gate for gate in gates if gate and gate.ok is False]),
        _with(silent, [gate for gate in gates if gate and gate.ok is None]),
    )


def _with(gates: Gates, additions: Iterable[Gate]) -> Gates:
    reasons = {gate.name: gate.why for gate in additions}
    return {**gates, ROLE: {**gates.get(ROLE, {}), **reasons}} if reasons else gates


def gates_of(run: Run, loads: Iterable[Workload], asked: Mapping[str, Any]) -> Gates:
    """The gates that tripped in a kept run; that of its load generator is read again."""
    gates_but_own = {
        role: {name: reason for name, reason in reasons.items() if name != GATE}
        for role, reasons in run.gates.items()
    }
    gates = _with(gates_but_own, _late(run, loads, asked))
    return {role: reasons for role, reasons in gates.items() if reasons}


def _late(run: Run, loads: Iterable[Workload], question: Mapping[str, Any]) -> Iterator[Gate]:
    for load in loads:
        digest = run.raw.get(f"{load.name}.txt", "")
        if load.loop == "open" and digest:
            as_asked = _as_asked(load, question.get("workload", {}))
            gate = _gate(_Output(repr(as_asked), digest, as_asked, run))
            if gate and gate.ok is False:
                yield gate


@dataclass(frozen=True)
class _Output:
    # What sets one text apart from another, and, not compared, what it is read by.
    load: str
    digest: str
    workload: Workload = field(compare=False)
    run: Run = field(compare=False)


# Each claim asks for it.
@lru_cache(maxsize=4096)
def _gate(output: _Output) -> Gate | None:
    try:
        return of_text(output.workload, output.run.text(f"{output.workload.name}.txt"))
    except LabkitError:  # what is wrong with the text is said where its figures are read
        return None


# The schedule is that of the run, and a study may have another by now.
def _as_asked(load: Workload, record: Mapping[str, Any]) -> Workload:
    if record.get("name") != type(load).__name__:
        return load
    knobs = {
        name: record[name] for name, value in vars(load).items()
        if isinstance(record.get(name), int | float) and isinstance(value, int | float)
    }  # fmt: skip
    try:
        return replace(load, **knobs)
    except LabkitError:
        return load
