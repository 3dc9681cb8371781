"""Data that a claim is judged on, made so that it holds, and so that it does not."""

import numpy as np

from labkit.judging import judged as judged_by
from labkit.results import Results
from labkit.study import Reading
from labkit.verdict import CONTRADICTED, HOLDS

# Levels of the conditions, in the order of `names`, that chance does not find in 400 trials.
AS_CLAIMED = {
    "lat-feature-03": [1], "lat-feature-04": [1], "redis-scaleout-10": [0.8] * 4,
    "ld-vmotion-06": [1], "monster-vmotion-11": [1] * 3, "sqlserver-monster-01": [493_804],
    "vcenter-ha-02": [410, 370, 439, 399, 460, 420], "raid-vmmark-05": [13, 13],
    "specweb-directpath-01": [2, 1, 3, 4] * 3, "raid-vmmark-01": [1] * 12,
    "docker-netperf-10": [9400] * 12,
}  # fmt: skip


def verdicts(claim):
    """Those that data of many kinds give, until both are there that matter."""
    rng, found = np.random.default_rng(1), set()
    for levels in planted(claim, rng):
        found.add(claim.judge(exact(claim, levels, rng)).verdict)
        if {HOLDS, CONTRADICTED} <= found:
            break
    return found


def planted(claim, rng):
    """Levels of the conditions: those known to fit the claim, then by chance."""
    count = len(claim.names())
    if claim.id in AS_CLAIMED:
        yield AS_CLAIMED[claim.id]
    for _ in range(400):
        spread = rng.choice([0.02, 0.2, 1.5, 4.0])
        levels = np.exp(spread * rng.standard_normal(count)) * rng.choice([1e-4, 0.02, 1, 20])
        yield np.sort(levels)[:: rng.choice([-1, 1])] if rng.random() < 0.5 else levels
    yield [1] * count


def exact(claim, levels, rng, noise=None):
    """Five blocks of each condition at its level, as if measured almost without noise."""
    many = 200 if any(c.what.percentiles for c in claim.comparisons()) else 1
    if any(q > 99.9 for c in claim.comparisons() for q in c.what.percentiles.values()):
        many = 25_000
    blocks = 40 if "variation" in str(claim) else 5
    if noise is None:
        noise = 1e-5 if blocks == 5 else rng.choice([2e-3, 9e-3, 5e-2])
    return {
        name: {k: level * np.exp(noise * rng.standard_normal(many)) for k in range(blocks)}
        for name, level in zip(claim.names(), levels, strict=True)
    }


class Planted(Reading):
    """A study that has measured these values, and nothing else."""

    def __init__(self, study, kept, values):
        super().__init__(study.sized(**kept.asked.get("sizes", {})), kept)
        self.__dict__["measured"] = values
        self.__dict__["blocks"] = {n: value for n, value in values.items() if ": " not in n}


def results(path, tier="hosts", **asked):
    """Results of a lab of this tier, without a run."""
    lab = {"name": "planted", "tier": tier, "hosts": {}, **asked.pop("lab", {})}
    return Results.begin(path / f"{tier}-{len(list(path.iterdir()))}", {"lab": lab, **asked})


def judged(study, claim, levels, kept, noise=None):
    """The study's own verdict on one claim, whose names have these levels and no others are."""
    (asked,) = [one for one in study.claims if one.id == claim]
    values = exact(asked, levels, np.random.default_rng(1), noise)
    return {one.claim: one for one in judged_by(Planted(study, kept, values))}[claim]
