"""The figures that a document's claims are about, found in what another tool measured.

A claim speaks of `max_iops` under `VM [load=read]`; fio prints `read iops`. That the one is the
other is said by the word `max_iops=read iops`, or `max_iops='read iops' + 'write iops'`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from labkit.claim import Claim, judge
from labkit.claims import published
from labkit.claims.forms import EveryTest
from labkit.errors import BadInput, ResultsError, Unknown
from labkit.machine.units import shown
from labkit.reason import Reason, What
from labkit.statistics.measurand import Measurand
from labkit.statistics.percentiles import Blocks, count
from labkit.statistics.quantity import Quantity, Term, summary
from labkit.statistics.spending import History
from labkit.verdict import NOT_TESTABLE, Verdict, named
from labkit.workload import Sample

KEY = "claims"
"""Key of the claims in study.json, for `Results.judged_as` too."""
EACH_VALUE = "each"
MOST_NAMED = 12


@dataclass(frozen=True)
class Claimed:
    """The study that runs are judged as, and how each metric of its claims is got from a file.

    `ways` are by metric, or by `metric: condition` for one condition; each is a metric of the tool,
    or an expression of several. The first whose metrics are all in a file counts for that file.
    """

    study: str
    ways: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def said(cls, study: str, words: Iterable[str]) -> Claimed:
        """Read it from a command line, `METRIC=WAY` each; refuse what no claim is about."""
        wanted = published.published(study).wanted()
        metrics = {metric for metrics_of in wanted.values() for metric in metrics_of}
        keys = metrics | {f"{m}: {name}" for name, metrics_of in wanted.items() for m in metrics_of}
        ways: dict[str, tuple[str, ...]] = {}
        for word in words:
            key = max((k for k in keys if word.startswith(f"{k}=")), key=len, default="")
            if word in keys:
                hint = f"--metric '{word}=...': a metric of the tool, or an expression of several"
                raise BadInput(f"--metric {word}: which metric of the tool is it?", hint=hint)
            if not key:
                raise Unknown(f"metric of the claims of {study}", word.partition("=")[0], metrics)
            ways[key] = (*ways.get(key, ()), word[len(key) + 1 :])
        return cls(study, ways)

    @classmethod
    def of(cls, question: Mapping[str, Any]) -> Claimed | None:
        """Read it from study.json; None if nothing is said of claims."""
        fields = question.get(KEY)
        if fields is None:
            return None
        try:
            ways = {str(key): tuple(map(str, said)) for key, said in fields["ways"].items()}
            return cls(published.published(str(fields["study"])).study, ways)
        except (AttributeError, KeyError, TypeError) as error:
            raise ResultsError("study.json: the claims cannot be read", said=repr(error)) from None

    def samples(self, condition: str, samples: Sequence[Sample]) -> list[Sample]:
        """The samples that the claims ask of this condition, as far as the tool reported them."""
        by_metric = {sample.metric: sample for sample in samples}
        metrics = published.published(self.study).wanted().get(condition, ())
        return [*filter(None, (self._sample(metric, condition, by_metric) for metric in metrics))]

    def by_name(self, condition: str, samples: Sequence[Sample]) -> dict[str, Sample]:
        """Return `samples` by the names of claims: `VM`, or `latency: VM` of another metric."""
        main = published.published(self.study).metric
        return {
            str(Measurand.measured(sample.metric, condition, main)): sample
            for sample in self.samples(condition, samples)
        }

    def insist(self, condition: str, tool_samples: Sequence[Sample], place: str) -> list[Sample]:
        """Return `samples`; refuse a file with nothing of what is asked, and say what it has."""
        document = published.published(self.study)
        metrics_of, units = document.wanted(), document.units
        if condition not in metrics_of:
            raise Unknown(f"condition of {self.study}", condition, metrics_of)
        samples = self.samples(condition, tool_samples)
        if not samples:
            raise _ambiguity(condition, metrics_of[condition], tool_samples, units, place)
        for sample in samples:
            check_unit(sample, units.get(sample.metric, ""), place)
        return samples

    def _sample(self, metric: str, condition: str, samples: Mapping[str, Sample]) -> Sample | None:
        ways = (*self.ways.get(f"{metric}: {condition}", ()), *self.ways.get(metric, ()))
        for way in ways or (metric, metric.replace("_", " ")):
            if figure := _follow(way, samples):
                unit = figure.unit or published.published(self.study).units.get(metric, "")
                return Sample(metric, unit, figure.values, figure.lost)
        return None

    def judge(
        self, blocks_of: Mapping[str, Blocks], looks: Sequence[int] = (),
        margin: float | None = None, before: Mapping[str, History] | None = None,
    ) -> list[Verdict]:  # fmt: skip
        """A verdict on each claim. Metrics with one value a run are judged by their mean."""
        plain = published.of(self.study)
        questions = [_of_single(claim, blocks_of) for claim in plain]
        doubts = {claim.id: _lack_of_values(claim, blocks_of) for claim in questions}
        able = (claim for claim in questions if not doubts[claim.id])
        judged = judge(able, blocks_of, looks=looks, before=before, margin=margin)
        verdict_of, verdicts = {v.claim: v for v in judged}, []
        for question, claim in zip(questions, plain, strict=True):
            verdict = verdict_of.get(claim.id) or claim.not_testable(
                Reason(What.DECLARED, said=doubts[claim.id])
            )
            of_means = question != claim and verdict.verdict != NOT_TESTABLE
            verdicts.append(verdict.also(Reason(What.OF_MEANS)) if of_means else verdict)
        return verdicts


def with_claimed(claims: Claimed | None, condition: str, samples: Sequence[Sample]) -> list[Sample]:
    """The samples that claims ask of this condition, by their names, then the tool's other ones."""
    first = claims.samples(condition, samples) if claims else []
    names = {sample.metric for sample in first}
    return [*first, *(sample for sample in samples if sample.metric not in names)]


def check_unit(sample: Sample, unit: str, place: str, hint: str = "") -> None:
    """Refuse a figure in another unit than claims, or other files, have of it."""
    if unit and sample.unit and sample.unit != unit:
        problem = f"{place}: {sample.metric} is in {shown(sample.unit)}, not in {shown(unit)}"
        way = f"--metric \"{sample.metric}=1e6 / 'its name there'\""
        raise BadInput(problem, hint=hint or f"an expression scales it, or turns it round: {way}")


# Runs that report one value each, such as their median, have no percentiles of their own.
def _of_single(claim: Claim, blocks_of: Mapping[str, Blocks]) -> Claim:
    if not all(map(_single, (blocks_of.get(name, {}) for name in claim.names()))):
        return claim
    if isinstance(claim, EveryTest):
        return replace(claim, parts=tuple(_of_single(part, blocks_of) for part in claim.parts))
    means: dict[str, Any] = {"percentile": "mean", "percentiles": ("mean",)}
    medians = [name for name in means if vars(claim).get(name) in (50, (50,))]
    return replace(claim, **{name: means[name] for name in medians})


def _lack_of_values(claim: Claim, blocks_of: Mapping[str, Blocks]) -> str:
    terms = [pair for c in claim.comparisons() for pair in c.what.percentiles.items()]
    lacking = [(q, name) for name, q in terms if _single(blocks_of.get(name, {}))]
    if not lacking or claim.missing(blocks_of):
        return ""
    needs = f"{named(max(lacking)[0])} of {max(lacking)[1]}"
    return f"the claim needs {needs}, but its runs have one value each: import all values"


def _single(blocks: Blocks) -> bool:
    return bool(blocks) and count(blocks) == len(blocks)


def _ambiguity(
    condition: str, metrics: Sequence[str], samples: Sequence[Sample], units: Mapping[str, str],
    place: str,
) -> BadInput:  # fmt: skip
    names = ", ".join(_with_unit(name, units.get(name, "")) for name in metrics)
    first, unit = metrics[0], units.get(metrics[0], "")
    alike = [sample.metric for sample in samples if unit in ("", sample.unit)]
    way = alike[0] if alike else f"1e6 / '{samples[0].metric}'"
    had = ", ".join(_with_unit(sample.metric, sample.unit) for sample in samples[:MOST_NAMED])
    more = f", and {len(samples) - MOST_NAMED} more" if len(samples) > MOST_NAMED else ""
    return BadInput(
        f"{place}: which of its metrics is {names} of {condition}?",
        said=f"it has {had}{more}",
        hint=f'such as --metric "{first}={way}", or of several '
        f"--metric \"{first}='one' + 'other'\"",
    )


# A metric is taken as it is; of an expression, which has no unit, nobody counted what was lost.
def _follow(way: str, samples: Mapping[str, Sample]) -> Sample | None:
    if way in samples or not {"'", '"'} & {*way}:
        return samples.get(way)
    quantity = Quantity(way, EACH_VALUE)
    if not {*quantity.names} <= samples.keys():
        return None
    values_of = {name: samples[name].values for name in quantity.names}
    figures: dict[Term, Any] = {
        (name, of): values_of[name] if of == EACH_VALUE else summary(of, [values_of[name]])
        for name, of in quantity.terms()
    }
    try:
        numbers = np.atleast_1d(quantity.all_of(figures))
    except ValueError:
        problem = f"{quantity.shown} is of metrics that have different numbers of values"
        raise BadInput(problem, hint="mean('...') or median('...') combines several") from None
    if not np.isfinite(numbers).all():
        raise quantity.divides()
    return Sample(way, "", numbers)


def _with_unit(name: str, unit: str) -> str:
    return f"{name} ({shown(unit)})" if unit else name
