"""A study: its question, conditions, workloads and claims, and what they say of results."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labkit import kernels, noise_floor
from labkit.claim import Claim, judge
from labkit.claims.doubts import LATENCIES, Doubts
from labkit.claims.printed import figures
from labkit.condition import Condition
from labkit.errors import BadInput, Unknown
from labkit.event import Event, event_samples, kept_text
from labkit.gates import watch
from labkit.noise_floor import Noise
from labkit.results import Results, Run, facts_of
from labkit.runs import integrity, lab_faults, link_limit, odd_runs
from labkit.runs import looks as kept_looks
from labkit.settings._ways import cpus_of
from labkit.statistics import steady
from labkit.verdict import UNDECIDED, Verdict
from labkit.workload import Sample, Workload
from labkit.workloads import _pairs as pairs

if TYPE_CHECKING:
    import polars as pl

SHARED_CPUS = (
    "the client shares CPUs with the guests of the server, so its own waiting is in the figures: "
    "it takes three CPUs, or a machine for the client"
)
MORE = re.compile(r"(?:about|more than) \d+ more blocks?")
FRAME = (
    "condition",
    "block",
    "order",
    "time",
    "tier",
    "metric",
    "point",
    "unit",
    "number",
    "value",
)
"""The columns of a study's data frame; `number` counts the values of a run from 1."""


@dataclass(frozen=True)
class Study:
    """What is asked, and how it is measured and judged."""

    name: str
    title: str
    question: str
    source: str
    workload: Workload
    conditions: tuple[Condition, ...]
    claims: tuple[Claim, ...]
    metric: str
    unit: str
    also: tuple[Workload, ...] = ()
    """What runs after the workload in each run, for its metrics beside."""
    quick: Mapping[str, int] = field(default_factory=dict)
    """Parameters of a short run: enough to see it work, too few to judge the tail."""
    few: tuple[str, ...] = ()
    """Conditions of a short run; empty for all of them."""
    draft: str = ""
    """What has not been shown of it yet; empty once the whole study has run in a box."""
    topology: str = ""
    """What a lab in a box is made of for this study; empty for the usual pair."""
    untold: Mapping[str, str] = field(default_factory=dict)
    """Metrics and points that no emulated lab can measure, and why not.

    So for a condition that it can measure, but that is not there what the document means by it.
    """

    unmeasured: Mapping[str, str] = field(default_factory=dict)
    """Metrics that labkit measures on no lab, and why not: so nobody decides claims of them."""
    least_cpus: Mapping[str, int] = field(default_factory=dict)
    """Claims that only servers with so many CPUs, also in guests, can confirm or contradict."""
    apart: tuple[str, ...] = ()
    """Claims that a client which shares CPUs with the server's guests would decide by that."""
    takes: Mapping[str, str] = field(default_factory=dict)
    """Claims for which the machine under a box needs what not every machine has, and what."""

    @property
    def loads(self) -> tuple[Workload, ...]:
        """All that runs in each run."""
        return (self.workload, *self.also)

    def asked(self, where: str, seed: int) -> dict[str, Any]:
        """What a run of this study asks for, apart from the lab."""
        load = {"name": type(self.workload).__name__, **asdict(self.workload)}
        names = [condition.name for condition in self.conditions]
        also = [{"name": type(one).__name__, **asdict(one)} for one in self.also]
        return {
            "study": self.name, "where": where, "seed": seed, "workload": load, "conditions": names,
            **({"also": also} if also else {}),
            **({"events": events} if (events := self._asked_events) else {}),
        }  # fmt: skip

    @property
    def _asked_events(self) -> dict[str, list[dict[str, Any]]]:
        return {
            one.name: [{"name": event.name, **asdict(event)} for event in one.events]
            for one in self.conditions if one.events
        }  # fmt: skip

    def condition(self, name: str | None) -> Condition:
        """The condition of a name; a study of one condition needs none."""
        known = {condition.name: condition for condition in self.conditions}
        if name is None and len(known) == 1:
            return self.conditions[0]
        if name is None:
            raise BadInput(f"which condition of {self.name}?", hint=f"known: {', '.join(known)}")
        if name not in known:
            raise Unknown(f"condition of {self.name}", name, known)
        return known[name]

    def blocks(self, results: Results) -> dict[str, dict[int, npt.NDArray[np.float64]]]:
        """All values by condition and block, read from the raw text of the finished runs."""
        values: dict[str, dict[int, npt.NDArray[np.float64]]] = defaultdict(dict)
        for run in results.finished():
            values[run.condition][run.block] = self.sample(run).values
        return {c.name: values[c.name] for c in self.conditions if c.name in values}

    def sample(self, run: Run) -> Sample:
        """The study's metric in one run, read from its raw text."""
        parsed = {s.metric: s for s in self.samples(run)}
        return parsed[self.metric]

    def samples(self, run: Run) -> list[Sample]:
        """All metrics of one run, read from its raw text."""
        found = [sample for load in self.loads for sample in pairs.samples(load, run)]
        return [*found, *event_samples(self.events(run.condition), self.loads, kept_text(run))]

    def events(self, condition: str) -> tuple[Event, ...]:
        """What happens while a condition is measured."""
        return next((one.events for one in self.conditions if one.name == condition), ())

    def measured(self, results: Results) -> dict[str, dict[int, npt.NDArray[np.float64]]]:
        """As `blocks`, and all other metrics and points, as `ready_time: VM-Default [vms=4]`."""
        values: dict[str, dict[int, npt.NDArray[np.float64]]] = defaultdict(dict)
        for run in results.finished():
            for sample in self.samples(run):
                values[self._named(sample.metric, run.condition)][run.block] = sample.values
        return dict(values)

    def frame(self, results: Results) -> pl.DataFrame:
        """A polars data frame of finished runs: a row for each value that was measured."""
        import polars as pl

        tier = str(results.asked.get("lab", {}).get("tier", ""))
        parts = [
            _framed(sample, facts_of(run, {"metric": sample.metric, "unit": sample.unit}), tier)
            for run in results.finished()
            for sample in self.samples(run)
        ]
        return pl.concat(parts, how="vertical_relaxed") if parts else pl.DataFrame()

    def at(self, results: Results, point: str) -> dict[str, dict[int, npt.NDArray[np.float64]]]:
        """The study's metric at a point, such as `size=45K`, by condition and block."""
        ends = f" [{point}]"
        found = self.measured(results).items()
        return {name.removesuffix(ends): blocks for name, blocks in found
                if name.endswith(ends) and ": " not in name}  # fmt: skip

    # A metric at a point, such as `bandwidth [op=Copy]`, is that of the condition at the point.
    def _named(self, metric: str, condition: str) -> str:
        head, bracket, point = metric.partition(" [")
        other = "" if head == self.metric else f"{head.replace(' ', '_')}: "
        return f"{other}{condition}{bracket}{point}"

    def judge(self, results: Results, margin: float | None = None) -> list[Verdict]:
        """A verdict on each claim; what could not be measured says why.

        What differs by less than `margin` is the same; without one, the lab's noise says what.
        """
        looks = kept_looks.look(results)
        refused = {**results.asked.get("refused", {}), **watch.left_out(results)}
        emulated = results.asked.get("lab", {}).get("tier", "hosts") != "hosts"
        untold = self.untold if emulated else {}
        measured = {name: b for name, b in self.measured(results).items() if name not in untold}
        noise = self.noise(results)
        verdicts = judge(
            self.claims, measured, emulated=emulated, decided=self.decided(results),
            looks=looks, margin=margin, floors=noise.floors if noise else {},
        )  # fmt: skip
        whys = {**refused, **self.unmeasured, **untold}
        other = [c.name for c in self.conditions if c.name in untold and c.name not in refused]
        told = [_other_here(_explained(verdict, whys), other) for verdict in verdicts]
        given_up, each = kept_looks.given_up(results), _seconds_of_a_block(results)
        sure = [
            _in_minutes(_given_up(_in_noise(verdict, noise), given_up), each) for verdict in told
        ]
        doubts = self._doubts(results)
        return [
            doubts.on(verdict, self._conditions_of(claim), self._latency(claim))
            for verdict, claim in zip(sure, self.claims, strict=True)
        ]

    def _doubts(self, results: Results) -> Doubts:
        tolerated = results.asked.get("lab", {}).get("tolerates", ())
        borne = {one.name: (*one.expects, *tolerated) for one in self.conditions}
        changing = [one for one in steady.told(self.blocks(results)) if "still changing" in one]
        return Doubts(results, borne, changing)

    # A claim speaks of a condition, or of one at a point of its own.
    def _conditions_of(self, claim: Claim) -> set[str]:
        plain = {name.rpartition(": ")[2] for name in claim.names()}
        known = [one.name for one in self.conditions]
        return {n for n in known if any(p == n or p.startswith(f"{n} [") for p in plain)}

    def _latency(self, claim: Claim) -> bool:
        waits = claim.metric in ("", "response_time", "round_trip", "wake_up_time", "latency")
        return self.unit in LATENCIES and waits

    def decided(self, results: Results) -> dict[str, str]:
        """The claims that these hosts decide by what they are: kernels compared, or few CPUs."""
        made = results.asked.get("kernels", {})
        compared = {one.id: [c.what.names for c in one.comparisons()] for one in self.claims}
        whys = {claim: kernels.decided(names, made) for claim, names in compared.items()}
        whys |= self._few_cpus(results) | self._shared_cpus(results)
        return {claim: why for claim, why in whys.items() if why}

    def _few_cpus(self, results: Results) -> dict[str, str]:
        hosts = results.asked.get("lab", {}).get("hosts", {}) if self.least_cpus else {}
        if not str(hosts.get("server", {}).get("cpus", "")).isdecimal():
            return {}
        few = min(self._server_cpus(one, hosts) for one in self.conditions)
        return {
            claim: f"it takes {least} CPUs for the servers, and here they have {few}"
            for claim, least in self.least_cpus.items()
            if few < least
        }

    # Results that do not say which CPUs a host of a box had are older than a client set aside.
    def _shared_cpus(self, results: Results) -> dict[str, str]:
        lab = results.asked.get("lab", {})
        if lab.get("tier", "hosts") == "hosts":
            return {}
        told = [
            lab.get("hosts", {}).get(role, {}).get("allowed", "0") for role in ("client", "server")
        ]
        client, server = ({*cpus_of(cpus)} for cpus in told)
        return dict.fromkeys(self.apart, SHARED_CPUS) if client & server else {}

    # Containers share their host's CPUs, and so do guests; guests may have fewer.
    def _server_cpus(self, condition: Condition, hosts: Mapping[str, Mapping[str, str]]) -> int:
        roles = [role for role in self.workload.roles if role.startswith("server")]
        players = {player for role in roles for player in condition.players(role)}
        told = [str(hosts.get(player, {}).get("cpus", "")) for player in players]
        each = sum(int(one) for one in told if one.isdecimal())
        return min(int(hosts["server"]["cpus"]), each or int(hosts["server"]["cpus"]))

    def noise(self, results: Results) -> Noise | None:
        """What `labkit noise` has found on the lab of these results; None if it was never asked."""
        return noise_floor.kept(self, str(results.asked.get("lab", {}).get("name", "")))

    def remarks(self, results: Results) -> list[str]:
        """What a reader of these results should know of them, a sentence each."""
        closed = [
            f"{load.name} waits for each answer before it asks again (a closed loop): while "
            "something stalls nothing is asked, so far percentiles look better than they are"
            for load in self.loads if load.loop == "closed"
        ]  # fmt: skip
        draft = [f"{self.name} is a draft: {self.draft}"] if self.draft else []
        blocks = self.blocks(results)
        odd = odd_runs.remarks(results, blocks, self.unit)
        known = [*integrity.remarks(results), *lab_faults.remarks(results)]
        known += link_limit.remarks(results)
        return [*draft, *watch.remarks(results), *known, *odd, *steady.told(blocks), *closed]

    def published(self) -> list[dict[str, str]]:
        """The document's own numbers, each named after the condition here that it belongs to."""
        names = {condition.name for condition in self.conditions}
        at_points = ((one, f"{one.condition} [{one.x_name}={one.x}]") for one in figures(self.name))
        return [
            {**asdict(one), "condition": at if at in names else one.condition}
            for one, at in at_points
        ]


def _framed(sample: Sample, facts: Mapping[str, Any], tier: str) -> pl.DataFrame:
    import polars as pl

    numbers = np.arange(1, len(sample.values) + 1)
    whole = pl.DataFrame({"number": numbers, "value": sample.values})
    same = {name: pl.lit(fact) for name, fact in {**facts, "tier": tier}.items()}
    return whole.with_columns(**same).select(*FRAME)


# A condition that was measured, but is not what the document means by it.
def _other_here(verdict: Verdict, names: Sequence[str]) -> Verdict:
    why = verdict.why
    for name in names:
        why = why.replace(f"not measured: {name}: ", f"{name} is not the document's here: ")
    return replace(verdict, why=why)


def _in_noise(verdict: Verdict, noise: Noise | None) -> Verdict:
    if noise is None or verdict.percentile is None or not verdict.effect:
        return verdict
    remark = noise.remark(verdict.percentile, verdict.effect)
    return replace(verdict, why=f"{verdict.why}; {remark}") if remark else verdict


# It counts as long as nothing was measured since.
def _given_up(verdict: Verdict, given_up: Mapping[str, kept_looks.GivenUp]) -> Verdict:
    kept = given_up.get(verdict.claim)
    if kept is None or verdict.verdict != UNDECIDED or verdict.blocks > kept.blocks:
        return verdict
    return replace(verdict, why=f"{verdict.why}; given up, {kept.why}", given_up=kept.why)


# Nobody knows how long so many more blocks are; as long as those that were measured.
def _seconds_of_a_block(results: Results) -> float:
    runs = results.finished()
    return sum(run.seconds for run in runs) / max(1, len({run.block for run in runs}))


def _in_minutes(verdict: Verdict, seconds: float) -> Verdict:
    if not seconds or not verdict.more:
        return verdict
    minutes = max(1, round(verdict.more * seconds / 60))
    took = f"{minutes} min" if minutes < 120 else f"{minutes / 60:.0f} h"
    return replace(verdict, why=MORE.sub(rf"\g<0>, {took}", verdict.why, count=1))


def _explained(verdict: Verdict, refused: Mapping[str, str]) -> Verdict:
    names: dict[str, list[str]] = {}
    for name, why in refused.items():
        if name in verdict.why:
            names.setdefault(why, []).append(name)
    if verdict.verdict != "not testable here" or not names:
        return verdict
    whys = "; ".join(f"{', '.join(those)}: {why}" for why, those in names.items())
    head, rest = "not measured: ", verdict.why
    for name in sorted(sum(names.values(), [head]), key=len, reverse=True):
        rest = rest.replace(name, "")
    every = not rest.strip(", ")  # each that was not measured has its reason
    return replace(verdict, why=head + whys if every else f"{verdict.why} ({whys})")
