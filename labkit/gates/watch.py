"""A run between its gates: what its hosts counted before and after it, and what follows from that.

On hosts of your own each gate that trips makes a run invalid, unless its condition `expects` that
or the lab `tolerates` it.
The hosts of a box share the machine's processors, memory and kernel, so there most gates say more
about the machine than about the run: they are shown, and only a clock that jumped or stood still
makes a run invalid. Either way the raw counts stay with the run.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from labkit.errors import HostError, LabkitError, OutcomeUnknown, ResultsError
from labkit.fleet.fleet import Fleet
from labkit.gates import gate, generator
from labkit.host import Host
from labkit.results import Results, Run
from labkit.workload import Workload

ALONE = frozenset({"clock step", "paused"})
"""The gates that a host can answer for although it shares its machine."""
LATE, LATE_SECONDS = 5, 60
"""A run may take this many times what its workload says, and this many seconds more."""
MOST_SHOWN = 3
HELP = "if these hosts cannot avoid it, list the gate under `tolerates` in the lab file"


# What a host counted, when it was asked by the monotonic clock, for how long, and how far our
# time of day was ahead of that clock.
_Counts = tuple[str, float, float, float]


@dataclass(frozen=True)
class Watch:
    """The hosts of one run by role; ask `begin` before it and `end` after it.

    The run goes on `between` some of them; another may be a guest that is stopped just now.
    """

    hosts: Mapping[str, Host]
    between: Collection[str]
    clients: Collection[str] = ()
    """Hosts that ask in a closed loop, with CPUs of their own."""
    ours: Collection[str] = ()
    limit: float = float("inf")
    collect: Callable[[Host], str] = gate.collect
    """Asks a host what it counts."""
    _before: dict[str, _Counts] = field(default_factory=dict)
    _after: dict[str, _Counts] = field(default_factory=dict)

    def begin(self) -> None:
        """Ask every host at the same time what it has counted so far."""
        self._before.update(self._ask())

    def end(self) -> None:
        """Ask every host again."""
        self._after.update(self._ask())

    def raw(self) -> dict[str, str]:
        """The counts, by the name of the file to keep them in."""
        texts_of = {"before": self._before, "after": self._after}
        roles = enumerate(self.hosts)
        return {
            f"gates-{number}-{moment}.txt": texts[role][0]
            for number, role in roles for moment, texts in texts_of.items() if role in texts
        }  # fmt: skip

    def tripped(self) -> dict[str, dict[str, str]]:
        """Role -> gate -> why, of the gates that say that something was wrong."""
        return self._saying(False)

    def untold(self) -> dict[str, dict[str, str]]:
        """The same of those that cannot say, as that host does not count it: no clean bill."""
        return self._saying(None)

    def _saying(self, ok: bool | None) -> dict[str, dict[str, str]]:
        gates = {role: [each for each in self._gates(role) if each.ok is ok] for role in self.hosts}
        return {
            role: {each.name: each.why for each in some} for role, some in gates.items() if some
        }

    def _ask(self) -> dict[str, _Counts]:
        outcomes = Fleet(self.hosts).each(self._count)
        for role, failure in outcomes.failed.items():
            if role in self.between:
                raise failure if isinstance(failure, LabkitError) else HostError(str(failure))
        return dict(outcomes.ok)

    # A guest that a setting has started again since has lost its connection; to ask twice does no
    # harm.
    def _count(self, host: Host) -> _Counts:
        try:
            return self._time(host)
        except OutcomeUnknown:
            return self._time(host)

    def _time(self, host: Host) -> _Counts:
        start, ahead = time.monotonic(), time.time() - time.monotonic()
        return self.collect(host), start, time.monotonic() - start, ahead

    # A host whose counts nobody can read says so, and the run stands as it is.
    def _gates(self, role: str) -> tuple[gate.Gate, ...]:
        if role not in self._before or role not in self._after:
            return (gate.Gate("counts", None, "this host could not be asked"),)
        before, start, first, was_ahead = self._before[role]
        after, end, last, ahead = self._after[role]
        try:
            return gate.gates(
                before, after, end - start, limit=self.limit, slack=first + last,
                step=ahead - was_ahead, client=role in self.clients, names=self.ours,
            )  # fmt: skip
        except LabkitError as error:
            return (gate.Gate("unreadable", False, str(error)),)


def spoiling(
    trips: Mapping[str, Mapping[str, str]], borne: Collection[str], on_one_machine: bool
) -> list[str]:
    """A sentence for each gate that makes the run invalid; the others are for the reader."""
    return [
        f"{role}: {name}: {reason}"
        for role, gates in trips.items()
        for name, reason in gates.items()
        if name in gate.NAMES
        and name not in (*borne, *gate.SHOWN_ONLY)
        and (name in ALONE or not on_one_machine)
    ]


def left_out(results: Results) -> dict[str, str]:
    """The conditions that were measured without a usable run, and why."""
    runs = results.runs()
    good = {run.condition for run in runs if run.state == "finished"}
    bad = [run for run in runs if run.state == "invalid" and run.condition not in good]
    tries = Counter(run.condition for run in bad)
    return {
        run.condition: f"none of its {tries[run.condition]} runs was valid: {_one_line(run.why)}"
        for run in bad
    }


def insist(results: Results) -> None:
    """Raise if more than half of the runs that were planned have no valid repetition."""
    runs = results.readable()[0]
    good, bad = (
        {(run.condition, run.block): run for run in runs if run.state == state}
        for state in ("finished", "invalid")
    )
    gaps = [run for of, run in bad.items() if of not in good]
    if 2 * len(gaps) > len({*good, *bad}):
        raise ResultsError(
            f"{len(gaps)} of {len({*good, *bad})} runs of {results.study} have no valid repetition",
            said="\n".join(dict.fromkeys(_one_line(run.why) for run in gaps[:MOST_SHOWN])),
            hint=HELP,
        )


def remarks(results: Results, loads: Sequence[Workload] = ()) -> list[str]:
    """Facts that a reader of these results should know of their runs, a sentence each."""
    runs = results.readable()[0]
    used = [run for run in runs if run.state == "finished"]
    gates = [generator.gates_of(run, loads, results.asked) for run in used]
    return [*_invalid(runs, len(used)), *_describe_doubts(gates)]


def _invalid(runs: Sequence[Run], used: int) -> list[str]:
    bad = [run for run in runs if run.state == "invalid"]
    if not bad:
        return []
    good = {(run.condition, run.block) for run in runs if run.state == "finished"}
    lacking = {(run.condition, run.block) for run in bad} - good
    texts = [f"{run.condition} in block {run.block} ({_one_line(run.why)})" for run in bad]
    remainder = f", and {len(texts) - MOST_SHOWN} more" if len(texts) > MOST_SHOWN else ""
    remark = f"; {len(lacking)} of them have no valid repetition" if lacking else ""
    return [
        f"{len(bad)} of {len(bad) + used} runs were invalid and are not used{remark}: "
        f"{'; '.join(texts[:MOST_SHOWN])}{remainder}"
    ]


def _describe_doubts(gates: Sequence[generator.Gates]) -> list[str]:
    blocks: dict[tuple[str, str], list[str]] = {}
    for roles in gates:
        for role, reasons in roles.items():
            for name, reason in reasons.items():
                blocks.setdefault((role, name), []).append(reason)
    return [
        f"{role}: gate {name} tripped in {len(reasons_of)} of {len(gates)} runs, such as: "
        f"{_one_line(reasons_of[0])}"
        for (role, name), reasons_of in blocks.items()
    ]


def _one_line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())
