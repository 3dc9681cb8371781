"""The latencies of the page of proof: [study, block, sample], in microseconds around 50.

They are not those that intervals were chosen by (latencies.py). Blocks of the two conditions share
nothing but drift.
"""

import numpy as np


def lognormal(between):
    def made(rng, shape):
        luck = between * rng.standard_normal((*shape[:2], 1))
        return 50 * np.exp(luck + 0.25 * rng.standard_normal(shape))

    return made


def bimodal(share):
    """So large a share of the samples takes three times as long; blocks differ by 5 %."""

    def made(rng, shape):
        return lognormal(0.05)(rng, shape) * np.where(rng.random(shape) < share, 3, 1)

    return made


def pareto(shape_of):
    def made(rng, shape):
        luck = np.exp(0.05 * rng.standard_normal((*shape[:2], 1)))
        return 40 * luck * (1 + 0.25 * rng.pareto(shape_of, shape))

    return made


def autoregressive(rng, shape):
    """Neighbouring samples are related by 0.9."""
    at = rng.standard_normal(shape)
    for n in range(1, shape[-1]):
        at[..., n] = 0.9 * at[..., n - 1] + np.sqrt(1 - 0.9**2) * at[..., n]
    return 50 * np.exp(0.05 * rng.standard_normal((*shape[:2], 1)) + 0.25 * at)


def drifting(rng, shape):
    """2 % slower from block to block, whatever is measured in them."""
    return lognormal(0.05)(rng, shape) * 1.02 ** np.arange(shape[1])[:, None]


def one_block(rng, shape):
    """The second block takes three times as long."""
    took = lognormal(0.05)(rng, shape)
    took[:, 1] *= 3
    return took


def tenth_of_blocks(rng, shape):
    """Each block takes three times as long with 10 %."""
    return lognormal(0.05)(rng, shape) * np.where(rng.random((*shape[:2], 1)) < 0.1, 3, 1)


def eight(rng, shape):
    """About 8 us, which a clock will print in whole microseconds."""
    return lognormal(0.05)(rng, shape) * 8 / 50


def whole(took):
    """A clock of 1-us steps."""
    return np.maximum(np.round(took), 1)


def spikes(rng, shape):
    """A spike each ten milliseconds: one sample in ten takes three times as long."""
    at = (np.arange(shape[-1]) + rng.integers(10, size=(*shape[:2], 1))) % 10 == 0
    return lognormal(0.05)(rng, shape) * np.where(at, 3, 1)


GENERATORS = {
    "lognormal, blocks alike": lognormal(0.0),
    "lognormal, blocks 5 %": lognormal(0.05),
    "lognormal, blocks 20 %": lognormal(0.20),
    "bimodal 1 %": bimodal(0.01),
    "bimodal 2 %": bimodal(0.02),
    "Pareto 1.5": pareto(1.5),
    "Pareto 3": pareto(3.0),
    "AR(1) 0.9": autoregressive,
    "drift": drifting,
    "one block x 3": one_block,
    "each block x 3 with 10 %": tenth_of_blocks,
    "1-us steps at 8 us": eight,
    "a spike each 10 ms": spikes,
}
CLOCKS = {eight: whole}
"""Those that are not printed exactly, and what is printed of them."""
