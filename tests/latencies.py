"""Three kinds of latency, alike within a run and varying from run to run, for simulated studies."""

import numpy as np
import scipy.signal


def alike(rng, shape, phi):
    """Standard normal values, each related to the one before."""
    noise = rng.standard_normal(shape) * np.sqrt(1 - phi**2)
    noise[..., 0] /= np.sqrt(1 - phi**2)
    return scipy.signal.lfilter([1], [1, -phi], noise, axis=-1)


def lognormal(rng, shape, between):
    return np.exp(0.25 * alike(rng, shape, 0.7))


def bimodal(rng, shape, between):
    """About a fifth of the packets, more or fewer from run to run, take 2.2 times as long."""
    share = -0.84 + 3 * between * rng.standard_normal(shape[:2])
    slow = alike(rng, shape, 0.9) < share[..., None]
    return np.exp(0.1 * rng.standard_normal(shape) + np.log(2.2) * slow)


def outliers(rng, shape, between):
    """About 1.5 % of the packets, in bursts, stall for a Pareto-distributed while."""
    rate = -2.17 + 2 * between * rng.standard_normal(shape[:2])
    stalled = alike(rng, shape, 0.8) < rate[..., None]
    stall = np.where(stalled, 1 + 3 * rng.pareto(1.3, shape), 1)
    return np.exp(0.15 * alike(rng, shape, 0.5)) * stall


KINDS = {"lognormal": lognormal, "bimodal": bimodal, "outliers": outliers}


def studies(kind, rng, many, between, *, blocks=10, samples=3000, shared=None):
    """`many` studies; half of a block's luck is the condition's own, half is its time's."""
    shared = luck(rng, many, blocks) if shared is None else shared
    own = between * (shared + luck(rng, many, blocks))
    return 50 * KINDS[kind](rng, (many, blocks, samples), between) * np.exp(own)[..., None]


def luck(rng, many, blocks):
    return np.sqrt(0.5) * rng.standard_normal((many, blocks))
