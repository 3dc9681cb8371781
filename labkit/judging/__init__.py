"""Judging the claims of a study by its results: a verdict on each, with its reasons and doubts.

Start with `judged`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from labkit import claim as claims
from labkit import noise_floor
from labkit.errors import insist_each
from labkit.gates import watch
from labkit.judging.by_hosts import decided, is_crowded, is_emulated
from labkit.judging.doubts import LATENCIES, Doubts, Loads, unhurried
from labkit.judging.finding import local_figure, reach_of
from labkit.noise_floor import Noise
from labkit.reason import Reason, What, taking
from labkit.results import Results
from labkit.runs import looks as kept_looks
from labkit.statistics import steady
from labkit.statistics.measurand import Measurand
from labkit.study import Reading, Study, insist_study
from labkit.verdict import UNDECIDED, Verdict

WAITS = ("", "response_time", "round_trip", "wake_up_time", "latency")
"""Metrics of a claim that are a latency where the study's unit is that of one."""

WITHOUT = "these results were made without it"


def judge(study: Study, results: Results, margin: float | None = None) -> list[Verdict]:
    """A verdict on each claim; what could not be measured says why.

    What differs by less than `margin` is the same; without one, the lab's noise says what.
    """
    insist_study(study)
    insist_each([results], Results, "results", "study_results(study, lab, 'local')")
    return judged(Reading.of(study, results), margin)


def judged(reading: Reading, margin: float | None = None) -> list[Verdict]:
    """Judge each claim by what was read."""
    study, results = reading.study, reading.results
    noise, given_up = lab_noise(study, results), kept_looks.given_up(results)
    # Each further block takes as long as those that were measured.
    runs = results.finished()
    seconds = sum(run.seconds for run in runs) / max(1, len({run.block for run in runs}))
    gates = results.asked.get("lab", {}).get("tolerates", ())
    borne = {condition.name: (*condition.expects, *gates) for condition in study.conditions}
    doubts = Doubts(results, borne, steady.unsteady(reading.blocks))
    loads, verdicts = Loads(study, results), []
    blocks_of = {name: b for name, b in reading.measured.items() if name not in study.unmeasured}
    for claim, verdict in zip(study.claims, _plain(reading, noise, margin), strict=True):
        verdict = _remarked(verdict, noise, given_up.get(claim.id))
        verdict = replace(verdict, reasons=tuple(taking(r, seconds) for r in verdict.reasons))
        names = claim.conditions_among([condition.name for condition in study.conditions])
        latency = study.unit in LATENCIES and claim.metric in WAITS
        verdict = doubts.on(verdict, names, latency, loads.of(claim))
        reach = reach_of(claim.names(), results)
        figure = local_figure(claim, verdict, blocks_of, reading.kinds, reach, reading.units)
        verdicts.append(replace(verdict, local=figure))
    return verdicts


def _plain(reading: Reading, noise: Noise | None, margin: float | None) -> list[Verdict]:
    study, results = reading.study, reading.results
    looks = kept_looks.look(results)
    whys = study.untold if is_emulated(results) or _slower(study, results) else {}
    silent = {**whys, **(study.crowded if is_crowded(results) else {}), **study.unmeasured}
    blocks_of = {name: b for name, b in reading.measured.items() if name not in silent}
    verdicts = claims.judge(
        study.claims, blocks_of, emulated=is_emulated(results),
        decided=decided(study, results) | unhurried(reading),
        looks=looks, before=kept_looks.histories(results), margin=margin,
        floors=noise.margins if noise else {}, kinds=reading.kinds,
    )  # fmt: skip
    if margin is None:  # what another margin decides is for the one who asked for it
        kept_looks.remember(results, (v.comparisons for v in verdicts))
    refusals = {**results.asked.get("refused", {}), **watch.left_out(results)}
    conditions = results.asked.get("conditions") or [c.name for c in study.conditions]
    without = {c.name: WITHOUT for c in study.conditions if c.name not in conditions}
    reasons_of = {**without, **results.asked.get("unseen", {}), **refusals, **silent}
    unlike = [c.name for c in study.conditions if c.name in silent and c.name not in refusals]
    unlike += reading.measured.keys() & silent.keys()
    return [replace(v, reasons=tuple(_explain(v, reasons_of, unlike))) for v in verdicts]


# What was asked for is kept with the results: rates of links are those of the events.
def _slower(study: Study, results: Results) -> bool:
    events = results.asked.get("events", {})
    return any(
        0 < event.get("rate_mbit", 0) < line
        for name, line in study.lines.items()
        for event in events.get(name, ())
    )


# Of each condition or metric that was not counted: why, or that it is not the document's.
def _explain(v: Verdict, reasons_of: Mapping[str, str], unlike: Sequence[str]) -> list[Reason]:
    reasons = [reason for reason in v.reasons if reason.what is not What.NOT_MEASURED]
    by: dict[tuple[What, str], list[str]] = {}
    for name in (name for r in v.reasons if r.what is What.NOT_MEASURED for name in r.about):
        whys = (text for key, text in reasons_of.items() if Measurand.of(name).has(key))
        kind = What.NOT_THE_DOCUMENTS if name in unlike else What.NOT_MEASURED
        by.setdefault((kind, next(whys, "")), []).append(name)
    return reasons + [Reason(kind, tuple(about), said) for (kind, said), about in by.items()]


# Below the lab's noise; given up, which counts as long as nothing was measured since.
def _remarked(verdict: Verdict, noise: Noise | None, note: kept_looks.GivenUp | None) -> Verdict:
    if floor := noise.hides(verdict.percentile, verdict.effect) if noise else 0.0:
        verdict = verdict.also(Reason(What.NOISE, number=floor))
    if note is None or verdict.verdict != UNDECIDED or verdict.blocks > note.blocks:
        return verdict
    return replace(verdict, given_up=note.why).also(Reason(What.GIVEN_UP, said=note.why))


def lab_noise(study: Study, results: Results) -> Noise | None:
    """The noise that `labkit noise` found on the lab of these results; None if never asked.

    It is that of sizes that fit the lab.
    """
    if results.asked.get("scale"):
        return None
    return noise_floor.kept(study, str(results.asked.get("lab", {}).get("name", "")))
