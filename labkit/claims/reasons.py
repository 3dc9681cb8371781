"""Additions to a verdict's reason: noise, what was given up, how long more blocks take."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from labkit.noise_floor import Noise
from labkit.results import Results
from labkit.runs import looks as kept_looks
from labkit.verdict import UNDECIDED, Verdict

MORE = re.compile(r"(?:about|more than) \d+ more blocks?")


def other_here(verdict: Verdict, names: Sequence[str]) -> Verdict:
    """Say of each condition that was measured that it is not what the document means by it."""
    why = verdict.why
    for name in names:
        why = why.replace(f"not measured: {name}: ", f"{name} is not the document's here: ")
    return replace(verdict, why=why)


def in_noise(verdict: Verdict, noise: Noise | None) -> Verdict:
    """Say whether the difference is below the noise of the lab."""
    if noise is None or verdict.percentile is None or not verdict.effect:
        return verdict
    remark = noise.remark(verdict.percentile, verdict.effect)
    return replace(verdict, why=f"{verdict.why}; {remark}") if remark else verdict


def given_up(verdict: Verdict, those: Mapping[str, kept_looks.GivenUp]) -> Verdict:
    """Say that a claim was given up; that counts as long as nothing was measured since."""
    kept = those.get(verdict.claim)
    if kept is None or verdict.verdict != UNDECIDED or verdict.blocks > kept.blocks:
        return verdict
    return replace(verdict, why=f"{verdict.why}; given up, {kept.why}", given_up=kept.why)


def seconds_of_a_block(results: Results) -> float:
    """Guess how long each further block takes: as long as those that were measured."""
    runs = results.finished()
    return sum(run.seconds for run in runs) / max(1, len({run.block for run in runs}))


def in_minutes(verdict: Verdict, seconds: float) -> Verdict:
    """Add to the blocks that are missing the time that they take."""
    if not seconds or not verdict.more:
        return verdict
    minutes = max(1, round(verdict.more * seconds / 60))
    took = f"{minutes} min" if minutes < 120 else f"{minutes / 60:.0f} h"
    return replace(verdict, why=MORE.sub(rf"\g<0>, {took}", verdict.why, count=1))


def explained(verdict: Verdict, refused: Mapping[str, str]) -> Verdict:
    """Give the reason of each condition or metric that was not measured."""
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
