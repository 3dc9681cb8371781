"""Judge the claims of a study by its results: a verdict on each, with its reasons and doubts."""

from __future__ import annotations

from labkit import noise_floor
from labkit.claim import Claim, judge
from labkit.claims import reasons
from labkit.claims.by_hosts import decided
from labkit.claims.doubts import LATENCIES, Doubts
from labkit.claims.judged_study import JudgedStudy
from labkit.claims.loads import Loads
from labkit.gates import watch
from labkit.noise_floor import Noise
from labkit.results import Results
from labkit.runs import looks as kept_looks
from labkit.statistics import steady
from labkit.verdict import Verdict

WAITS = ("", "response_time", "round_trip", "wake_up_time", "latency")
"""Metrics of a claim that are a latency where the study's unit is that of one."""


def judged(study: JudgedStudy, results: Results, margin: float | None = None) -> list[Verdict]:
    """Judge each claim; a verdict on what could not be measured says why."""
    noise = lab_noise(study, results)
    verdicts = _explained(study, results, noise, margin)
    given_up, each = kept_looks.given_up(results), reasons.seconds_of_a_block(results)
    sure = [
        reasons.in_minutes(reasons.given_up(reasons.in_noise(one, noise), given_up), each)
        for one in verdicts
    ]
    doubts, loads = _doubts(study, results), Loads(study, results)
    return [
        doubts.on(
            verdict, _conditions_of(claim, study), _latency(claim, study.unit), loads.of(claim)
        )
        for verdict, claim in zip(sure, study.claims, strict=True)
    ]


def _explained(
    study: JudgedStudy, results: Results, noise: Noise | None, margin: float | None
) -> list[Verdict]:
    looks = kept_looks.look(results)
    refused = {**results.asked.get("refused", {}), **watch.left_out(results)}
    emulated = results.asked.get("lab", {}).get("tier", "hosts") != "hosts"
    untold = study.untold if emulated or _slower(study, results) else {}
    silent = {*untold, *study.unmeasured}
    measured = {name: b for name, b in study.measured(results).items() if name not in silent}
    verdicts = judge(
        study.claims, measured, emulated=emulated, decided=decided(study, results),
        looks=looks, before=kept_looks.histories(results), margin=margin,
        floors=noise.margins if noise else {}, kinds=study.kinds(results),
    )  # fmt: skip
    if margin is None:  # what another margin decides is for the one who asked for it
        kept_looks.remember(results, verdicts)
    whys = {**results.asked.get("unseen", {}), **refused, **study.unmeasured, **untold}
    other = [c.name for c in study.conditions if c.name in silent and c.name not in refused]
    return [reasons.other_here(reasons.explained(one, whys), other) for one in verdicts]


# What was asked for is kept with the results: rates of links are those of the events.
def _slower(study: JudgedStudy, results: Results) -> bool:
    events = results.asked.get("events", {})
    return any(
        0 < event.get("rate_mbit", 0) < line
        for name, line in study.lines.items()
        for event in events.get(name, ())
    )


def lab_noise(study: JudgedStudy, results: Results) -> Noise | None:
    """The noise that `labkit noise` found on the lab of these results; None if never asked."""
    return noise_floor.kept(study, str(results.asked.get("lab", {}).get("name", "")))


def _doubts(study: JudgedStudy, results: Results) -> Doubts:
    tolerated = results.asked.get("lab", {}).get("tolerates", ())
    borne = {one.name: (*one.expects, *tolerated) for one in study.conditions}
    changing = [one for one in steady.told(study.blocks(results)) if "still changing" in one]
    return Doubts(results, borne, changing)


# A claim speaks of a condition, or of one at a point of its own.
def _conditions_of(claim: Claim, study: JudgedStudy) -> set[str]:
    plain = {name.rpartition(": ")[2] for name in claim.names()}
    known = [one.name for one in study.conditions]
    return {n for n in known if any(p == n or p.startswith(f"{n} [") for p in plain)}


def _latency(claim: Claim, unit: str) -> bool:
    return unit in LATENCIES and claim.metric in WAITS
