"""A study: its question, conditions, workloads and claims, and how its results are read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labkit.claim import Claim
from labkit.claims import published
from labkit.claims.printed import figures
from labkit.condition import Condition
from labkit.errors import BadInput, ResultsError, Unknown, insist_each
from labkit.event import Event, all_succeeded, event_samples, kept_text
from labkit.results import DESIGN, Results, Run, facts_of
from labkit.statistics.measurand import Measurand, measurands, plain
from labkit.statistics.quantity import PARTS
from labkit.workload import Sample, Workload
from labkit.workloads import _pairs as pairs

if TYPE_CHECKING:
    import polars as pl

FRAME = (
    "condition", "block", "order", "time", "tier", "metric", "point", "unit", "number", "value"
)  # fmt: skip
"""The columns of a study's data frame; `number` counts the values of a run from 1."""


Measured = dict[str, dict[int, npt.NDArray[np.float64]]]
"""Values by name and block."""
MOST_COUNT = 64
"""Of any size: guests, containers, databases."""
FIT, DOCUMENT = "fit", "document"
SCALES = (FIT, DOCUMENT)


@dataclass(frozen=True)
class Had:
    """Sizes of a machine of the document; 0 is not said."""

    cpus: int = 0
    gib: float = 0
    nodes: int = 0
    """NUMA nodes."""


@dataclass(frozen=True)
class OfDocument:
    """Sizes of a study and knobs of its workload in its document, by name, and its machines.

    Those of a role such as `guest` are all that are numbered after it. The line is in Gbit/s.
    """

    sizes: Mapping[str, int | float | str] = field(default_factory=dict)
    machines: Mapping[str, Had] = field(default_factory=dict)
    line: float = 0.0


@dataclass(frozen=True)
class Study:
    """A question, and how it is measured and judged."""

    name: str
    title: str
    question: str
    source: str
    workload: Workload
    conditions: tuple[Condition, ...]
    metric: str
    unit: str
    claims: tuple[Claim, ...] = None  # type: ignore[assignment]
    """Those of data/published/<name>.toml, unless others are given, or none: ()."""
    also: tuple[Workload, ...] = ()
    """Workloads that run after `workload` in each run, for their additional metrics."""
    quick: Mapping[str, int] = field(default_factory=dict)
    """Parameters of a short run: enough to see it work, too few to judge the tail."""
    few: tuple[str, ...] = ()
    """Conditions of a short run; empty for all of them."""
    extra: tuple[str, ...] = ()
    """Conditions that a run of usual length leaves out; the notebook's `every` measures them."""
    draft: str = ""
    """The part not shown yet; empty once the whole study has run in a box."""
    topology: str = ""
    """The topology of a lab in a box for this study; empty for the usual pair."""
    untold: Mapping[str, str] = field(default_factory=dict)
    """Metrics and points that no emulated lab can measure, and why not.

    So for a condition that it can measure, but that is not there what the document means by it.
    So for a claim, by its id, that the substitute of such a lab would decide.
    """

    crowded: Mapping[str, str] = field(default_factory=dict)
    """Conditions whose guests own a CPU each, and why they cannot where a box has too few."""
    emulated: Mapping[str, str] = field(default_factory=dict)
    """Claims by id that a guest without hardware support would decide, and how."""
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    """Metrics that labkit measures on no lab, and why not: so nobody decides claims of them.

    So for a claim, by its id, that a substitute of labkit's would decide on every lab.
    """

    lines: Mapping[str, float] = field(default_factory=dict)
    """By condition the document's line in Mbit/s; one that was slower tells nothing of `untold`."""
    least_cpus: Mapping[str, int] = field(default_factory=dict)
    """The CPUs that servers need, also in guests, to confirm or contradict a claim."""
    apart: Mapping[str, str] = field(default_factory=dict)
    """Claims that a client which shares CPUs with the server's guests would decide, and how."""
    takes: Mapping[str, str] = field(default_factory=dict)
    """Claims for which the machine under a box needs what not every machine has, and what."""
    absent: tuple[str, ...] = ()
    """Conditions that this run leaves out, though claims may speak of them."""

    sizes: Mapping[str, int | str] = field(default_factory=dict)
    """Numbers of guests and the like in its conditions, by name: at first those that fit a box."""
    made: Callable[..., tuple[Condition, ...]] | None = None
    """Its conditions for other `sizes`, which are its keywords."""
    chosen: Mapping[str, int | str] = field(default_factory=dict)
    """Sizes that are not those that fit a box."""
    grows: Mapping[str, str] = field(default_factory=dict)
    """Sizes that a larger lab raises: each counts the hosts of a role, such as guest, guest2."""
    document: OfDocument = field(default_factory=OfDocument)
    """The scale of its document, beside the one that fits."""
    scale: str = FIT
    fitting: Mapping[str, Any] = field(default_factory=dict)
    """At the document's scale: what those sizes and knobs are at the other."""

    def __post_init__(self) -> None:
        if self.claims is None:
            object.__setattr__(self, "claims", published.of(self.name))
        example = "Condition('VM', ...)"
        insist_each(self.conditions, Condition, f"conditions of {self.name}", example)
        insist_each(self.claims, Claim, f"claims of {self.name}", "Order(...)")
        insist_each([self.workload, *self.also], Workload, f"workload of {self.name}", "Ping()")
        twice(f"a condition of {self.name}", [condition.name for condition in self.conditions])
        twice(f"a claim of {self.name}", [claim.id for claim in self.claims])
        twice(f"a workload of {self.name}", [load.name for load in self.loads])
        knobs = [*dict.fromkeys(name for load in self.loads for name in vars(load))]
        for condition in self.conditions:
            if odd_knob := next((name for name in condition.knobs if name not in knobs), ""):
                raise Unknown(f"knob of condition {condition.name} of {self.name}", odd_knob, knobs)
        metrics = self._metrics()
        if metrics and plain(self.metric) not in metrics:
            raise Unknown(f"metric of {self.name}", self.metric, metrics.values())
        for claim in self.claims:
            if odd := next(self._odd(claim, metrics), None):
                problem = ": ".join(filter(None, [claim.place, f"claim {claim.id}", odd.what]))
                raise BadInput(problem, hint=odd.hint)

    # By their plain names; of a workload that does not tell its metrics only a run shows them.
    def _metrics(self) -> dict[str, str]:
        if not all(load.measures for load in self.loads):
            return {}
        events = (event for condition in self.conditions for event in condition.events)
        metrics = chain(*(load.measures for load in self.loads), *(e.measures for e in events))
        return {plain(metric): metric for metric in metrics}

    # What a study says of a name, such as why no lab measures it, makes the claim known.
    def _odd(self, claim: Claim, metrics: Mapping[str, str]) -> Iterator[Unknown]:
        names = [*(condition.name for condition in self.conditions), *self.absent]
        bases = {Measurand.of(name).condition for name in names}
        names_of_claim, reasons = measurands(claim.names()), {**self.untold, **self.unmeasured}
        if any(name.has(key) for key in reasons for name in names_of_claim):
            return
        for name in names_of_claim:
            if name.condition not in bases:
                yield Unknown(f"condition of {self.name}", name.at, names)
            if name.metric and metrics and plain(name.metric) not in metrics:
                yield Unknown(f"metric of {self.name}", name.metric, metrics.values())

    def sized(self, **sizes: int | str) -> Study:
        """The study with the same conditions for other sizes, each checked by name."""
        for name, value in sizes.items():
            if name not in self.sizes or self.made is None:
                raise Unknown(f"size of {self.name}", name, self.sizes)
            kind, low = type(self.sizes[name]), int(self.sizes[name] != 0)
            if type(value) is not kind or (kind is int and not low <= int(value) <= MOST_COUNT):
                raise BadInput(f"{self.name}: {name} must be 1 to {MOST_COUNT}, not {value!r}")
        changes = {name: value for name, value in sizes.items() if value != self.sizes[name]}
        if not changes or self.made is None:
            return self
        names = {condition.name for condition in self.conditions}
        conditions = [c for c in self.made(**{**self.sizes, **changes}) if c.name in names]
        lacking = names - {condition.name for condition in conditions}
        return replace(
            self, conditions=tuple(conditions), sizes={**self.sizes, **changes},
            chosen={**self.chosen, **changes}, absent=(*self.absent, *sorted(lacking)),
        )  # fmt: skip

    def at_scale(self, scale: str) -> Study:
        """The study as it fits a lab, or with the sizes and knobs that its document had."""
        if scale not in SCALES:
            raise Unknown(f"scale of {self.name}", scale, SCALES)
        if scale in (FIT, self.scale):
            return self
        sizes_asked = self.document.sizes
        if not sizes_asked and not self.document.machines:
            problem = f"{self.name} has one scale: it declares no sizes of its document"
            raise BadInput(problem, hint=f"scale = {FIT}")
        fitting = {name: {**vars(self.workload), **self.sizes}[name] for name in sizes_asked}
        sizes: dict[str, Any] = {n: size for n, size in sizes_asked.items() if n in self.sizes}
        knobs: dict[str, Any] = {n: knob for n, knob in sizes_asked.items() if n not in sizes}
        load = replace(self.workload, **knobs)
        return replace(self.sized(**sizes), workload=load, scale=scale, fitting=fitting)

    def left_open(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values that the scale does not set; another value of one that it sets is refused."""
        for name, value in values.items():
            value_there = self.document.sizes.get(name)
            if name in self.fitting and value not in (self.fitting[name], value_there):
                problem = f"scale = {self.scale} of {self.name} sets {name} = {value_there} itself"
                raise BadInput(problem, hint="choose one: the scale, or the value")
        return {name: value for name, value in values.items() if name not in self.fitting}

    def fixed(self, names: Collection[str]) -> Study:
        """The study with these sizes as they are, however large a lab is."""
        return replace(self, grows={n: role for n, role in self.grows.items() if n not in names})

    @property
    def loads(self) -> tuple[Workload, ...]:
        """All that runs in each run."""
        return (self.workload, *self.also)

    def asked(self, place: str, seed: int) -> dict[str, Any]:
        """Everything a run of this study asks for, apart from the lab."""
        load = _describe(self.workload)
        names = [condition.name for condition in self.conditions]
        also = [_describe(load) for load in self.also]
        events = {
            condition.name: [{"name": event.name, **asdict(event)} for event in condition.events]
            for condition in self.conditions if condition.events
        }  # fmt: skip
        return {
            "study": self.name, "where": place, "seed": seed, "workload": load, "conditions": names,
            DESIGN: {condition.name: condition.design for condition in self.conditions},
            **({"also": also} if also else {}),
            **({"sizes": dict(self.chosen)} if self.chosen else {}),
            **({"scale": self.scale} if self.scale != FIT else {}),
            **({"events": events} if events else {}),
        }  # fmt: skip

    def condition(self, name: str | None) -> Condition:
        """The condition of a name; a study of one condition needs none."""
        by_name = {condition.name: condition for condition in self.conditions}
        if name is None and len(by_name) == 1:
            return self.conditions[0]
        if name is None:
            raise BadInput(f"which condition of {self.name}?", hint=f"known: {', '.join(by_name)}")
        if name not in by_name:
            raise Unknown(f"condition of {self.name}", name, by_name)
        return by_name[name]

    def blocks(self, results: Results) -> Measured:
        """All values by condition and block, read from the raw text of the finished runs."""
        return _main_blocks(self, ((run, self.sample(run)) for run in self.runs(results)))

    def runs(self, results: Results) -> list[Run]:
        """The finished runs of its conditions; one that it has no more is kept and says nothing."""
        names = {condition.name for condition in self.conditions}
        return [run for run in results.finished() if run.condition in names]

    def sample(self, run: Run) -> Sample:
        """The study's metric in one run, from its raw text; empty where an event failed."""
        samples = {s.metric: s for s in self.samples(run)}
        if self.metric in samples:
            return samples[self.metric]
        if not all_succeeded(self.events(run.condition), kept_text(run)):
            return Sample(self.metric, self.unit, np.array([]))
        raise ResultsError(
            f"{run.path}: this run of {self.name} has no {self.metric}",
            said=f"it has {', '.join(sorted(samples))}",
            hint="its raw text lies beside it; measure its condition again under another label",
        )

    def samples(self, run: Run) -> list[Sample]:
        """All metrics of one run, read from its raw text.

        A load beside the study's own is left out where nothing but that one's tool was at hand.
        """
        loads = (self.workload, *(load for load in self.also if f"{load.name}.txt" in run.raw))
        samples = [sample for load in loads for sample in pairs.samples(load, run)]
        return [*samples, *event_samples(self.events(run.condition), self.loads, kept_text(run))]

    def events(self, condition: str) -> tuple[Event, ...]:
        """The events while a condition is measured."""
        return next((known.events for known in self.conditions if known.name == condition), ())

    def measured(self, results: Results) -> Measured:
        """The `blocks` and all other metrics and points, as `ready_time: VM-Default [vms=4]`."""
        return Reading(self, results).measured

    def frame(self, results: Results) -> pl.DataFrame:
        """A polars data frame of finished runs: a row for each value that was measured."""
        import polars as pl

        tier, parts = str(results.asked.get("lab", {}).get("tier", "")), []
        for run in results.finished():
            for sample in self.samples(run):
                facts = facts_of(run, {"metric": sample.metric, "unit": sample.unit})
                columns = {name: pl.lit(fact) for name, fact in {**facts, "tier": tier}.items()}
                numbers = np.arange(1, len(sample.values) + 1)
                frame = pl.DataFrame({"number": numbers, "value": sample.values})
                parts.append(frame.with_columns(**columns).select(*FRAME))
        return pl.concat(parts, how="vertical_relaxed") if parts else pl.DataFrame()

    def at(self, results: Results, point: str) -> Measured:
        """The study's metric at a point, such as `size=45K`, by condition and block."""
        named = ((Measurand.of(key), by) for key, by in self.measured(results).items())
        blocks = {condition: by for name, by in named
                  if not name.metric and (condition := name.before(point))}  # fmt: skip
        names = (condition.name for condition in self.conditions)  # in the study's order
        return {name: blocks[name] for name in dict.fromkeys((*names, *blocks)) if name in blocks}

    def published(self) -> list[dict[str, str]]:
        """The document's own numbers, each named after the condition here that it belongs to."""
        names, rows = {condition.name for condition in self.conditions}, []
        for row in figures(self.name):
            at = f"{row.condition} [{row.x_name}={row.x}]"
            rows.append({**asdict(row), "condition": at if at in names else row.condition})
        return rows


@dataclass(frozen=True)
class Reading:
    """A study and its results, every run parsed one time for all that is asked of them."""

    study: Study
    results: Results

    @classmethod
    def of(cls, study: Study, results: Results) -> Reading:
        """The study in the sizes that were measured, and the results with their runs in memory."""
        return cls(study.sized(**results.asked.get("sizes", {})), results.read_once())

    @cached_property
    def samples(self) -> list[tuple[Run, list[Sample]]]:
        """Each run that can be judged, with all that it measured."""
        return [(run, self.study.samples(run)) for run in self.study.runs(self.results)]

    @cached_property
    def _named(self) -> list[tuple[str, Run, Sample]]:
        main = self.study.metric
        return [(str(Measurand.measured(sample.metric, run.condition, main)), run, sample)
                for run, samples in self.samples for sample in samples]  # fmt: skip

    @cached_property
    def measured(self) -> Measured:
        """All values by name and block."""
        values: Measured = defaultdict(dict)
        for name, run, sample in self._named:
            values[name][run.block] = sample.values
        return dict(values)

    @cached_property
    def blocks(self) -> Measured:
        """The values of the study's own metric by condition and block."""
        return _main_blocks(self.study, ((run, sample) for _, run, sample in self._named))

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The names whose values are a `count`, the `share` of trials, or shares of a whole."""
        kinds = {name: sample.kind or PARTS.get(sample.unit, "") for name, _, sample in self._named}
        return {name: kind for name, kind in kinds.items() if kind}

    @cached_property
    def units(self) -> dict[str, str]:
        """The units of all values by name."""
        return {name: sample.unit for name, _, sample in self._named}


def _main_blocks(study: Study, samples: Iterable[tuple[Run, Sample]]) -> Measured:
    values: Measured = {condition.name: {} for condition in study.conditions}
    for run, sample in samples:
        if sample.metric == study.metric and sample.values.size:
            values[run.condition][run.block] = sample.values
    return {name: blocks for name, blocks in values.items() if blocks}


def twice(kind: str, names: Sequence[str]) -> None:
    """Refuse a name that two things have: what is kept by name would be mixed up."""
    if twins := [name for name, count in Counter(names).items() if count > 1]:
        raise BadInput(f"{kind} is there twice: {twins[0]!r}", hint="give each a name of its own")


def insist_study(value: object) -> None:
    """Refuse a name, or anything else that is no study."""
    insist_each([value], Study, "study", "find_study('lat_ping')")


# What free tools may do is asked for as it was before they could.
def _describe(load: Workload) -> dict[str, Any]:
    knobs = {name: knob for name, knob in asdict(load).items() if name != "free" or knob}
    return {"name": type(load).__name__, **knobs}
