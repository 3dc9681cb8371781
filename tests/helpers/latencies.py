"""Kinds of latency, alike within a run and varying from run to run, for simulated studies.

How intervals are made was chosen by what they do for `KINDS`; `HELD_OUT` were only looked at.
`UNLIKE` is as the recorded pings are, whose runs differ by a factor of two.
"""

import numpy as np
import scipy

SINGLE = np.float32
"""Half the time of doubles; what is measured has fewer digits."""


def normal(rng, shape):
    return rng.standard_normal(shape, dtype=SINGLE)


def alike(rng, shape, phi):
    """Standard normal values, each related to the one before."""
    noise = normal(rng, shape) * SINGLE(np.sqrt(1 - phi**2))
    noise[..., 0] /= SINGLE(np.sqrt(1 - phi**2))
    return scipy.signal.lfilter(np.array([1], SINGLE), np.array([1, -phi], SINGLE), noise, axis=-1)


def pareto(rng, size, shape):
    """As numpy's, in single precision; one `shape`, or one for each value."""
    return np.expm1(rng.standard_exponential(size, dtype=SINGLE) / np.asarray(shape, SINGLE))


def of_run(rng, shape, between):
    """One normal value for each run."""
    return (between * rng.standard_normal(shape[:2])[..., None]).astype(SINGLE)


def lognormal(rng, shape, between):
    return np.exp(SINGLE(0.25) * alike(rng, shape, 0.7))


def bimodal(rng, shape, between):
    """About a fifth of the packets, more or fewer from run to run, take 2.2 times as long."""
    slow = alike(rng, shape, 0.9) < of_run(rng, shape, 3 * between) - SINGLE(0.84)
    return np.exp(SINGLE(0.1) * normal(rng, shape) + SINGLE(np.log(2.2)) * slow)


def outliers(rng, shape, between):
    """About 1.5 % of the packets, in bursts, stall for a Pareto-distributed while."""
    stalled = alike(rng, shape, 0.8) < of_run(rng, shape, 2 * between) - SINGLE(2.17)
    took = np.exp(SINGLE(0.15) * alike(rng, shape, 0.5))
    took[stalled] *= 1 + 3 * pareto(rng, np.count_nonzero(stalled), 1.3)
    return took


def three_modes(rng, shape, between):
    at = alike(rng, shape, 0.8) - of_run(rng, shape, 1.5 * between)
    slow, slower = SINGLE(np.log(1.6)) * (at > 0.3), SINGLE(np.log(2)) * (at > 1.6)
    return np.exp(SINGLE(0.07) * normal(rng, shape) + slow + slower)


def heavy(rng, shape, between):
    """All of it has a Pareto tail, heavier in some runs."""
    return 1 + 2 * pareto(rng, shape, 2.2 * np.exp(of_run(rng, shape, between)))


def sticky(rng, shape, between):
    """Samples that hang together for hundreds."""
    return np.exp(SINGLE(0.3) * alike(rng, shape, 0.97))


def queue(rng, shape, between):
    """Exponential waiting on top of a service time."""
    squares = alike(rng, shape, 0.6) ** 2 + alike(rng, shape, 0.6) ** 2
    return SINGLE(0.3) + squares / 2


def even(rng, shape, between):
    return 1 + SINGLE(0.1) * normal(rng, shape)


def uneven(rng, shape, between):
    """Some runs scatter more than others."""
    width = SINGLE(0.6) * np.exp(of_run(rng, shape, 2 * between))
    return np.exp(width * alike(rng, shape, 0.5))


def waits(rng, shape, between):
    """Of a thousand packets a few, in bursts, wait for up to a hundred times as long."""
    waiting = alike(rng, shape, 0.5) < of_run(rng, shape, between) - SINGLE(2.75)
    took = np.exp(SINGLE(0.25) * alike(rng, shape, 0.7))
    took[waiting] *= SINGLE(100) ** rng.random(np.count_nonzero(waiting), dtype=SINGLE)
    return took


KINDS = {"lognormal": lognormal, "bimodal": bimodal, "outliers": outliers}
HELD_OUT = {
    "three modes": three_modes, "heavy": heavy, "sticky": sticky, "queue": queue, "even": even,
    "uneven": uneven,
}  # fmt: skip
UNLIKE = {"waits": waits}


def some_slow(rng, shape):
    """A fifth of the runs."""
    slow = rng.random(shape) < 0.2
    return 0.9 * (slow - 0.2) / 0.4 + np.sqrt(1 - 0.9**2) * rng.standard_normal(shape)


LUCKS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "some slow": some_slow,
    "exponential": lambda rng, shape: rng.standard_exponential(shape) - 1,
}
"""Of which mean and variance are 0 and 1."""


def studies(kind, rng, many, between, *, blocks=10, samples=3000, shared=None, lucky="normal"):
    """`many` studies; half of a block's luck is the condition's own, half is its time's."""
    shared = luck(rng, many, blocks, lucky) if shared is None else shared
    own = between * (shared + luck(rng, many, blocks, lucky))
    took = (KINDS | HELD_OUT | UNLIKE)[kind](rng, (many, blocks, samples), between)
    return took * (50 * np.exp(own))[..., None].astype(SINGLE)


def luck(rng, many, blocks, lucky="normal"):
    return np.sqrt(0.5) * LUCKS[lucky](rng, (many, blocks))
