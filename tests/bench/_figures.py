"""What a benchmark found: ours beside a peer's, measured in the same run, and the target."""

import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]
OUT = HOME / "out" / "bench"
sys.path[:0] = [str(HOME / "tests/helpers")]


@dataclass(frozen=True)
class Figure:
    """`ratio` is ours / peer_value; `target` says in words what it should be."""

    id: str
    what: str
    ours: float
    peer: str
    peer_value: float
    ratio: float
    target: str
    met: bool


# What a clock shows as no time at all is a time that it cannot show.
LEAST = 1e-9


def at_least(id, what, ours, peer, peer_value, factor):
    """More is better: ours should be `factor` times the peer's."""
    ratio = ours / max(peer_value, LEAST)
    return Figure(id, what, ours, peer, peer_value, ratio, f">= {factor} x", ratio >= factor)


def at_most(id, what, ours, peer, peer_value, factor):
    """Less is better: ours should be no more than `factor` times the peer's."""
    ratio = ours / max(peer_value, LEAST)
    return Figure(id, what, ours, peer, peer_value, ratio, f"<= {factor} x", ratio <= factor)


def target(id, what, ours, most):
    """Less is better, by a figure that was set beforehand."""
    return at_most(id, what, ours, "the target", most, 1)


def beside(id, what, ours, peer, peer_value):
    """Shown beside a peer's, with no target."""
    return Figure(id, what, ours, peer, peer_value, ours / peer_value, "no limit", True)


def seconds(action):
    """How long an action takes."""
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def median(values):
    """The median, for times that a busy machine makes long now and then."""
    return statistics.median(values)


def run(name, *parts):
    """Write what the parts found, or those of them that the command line names."""
    chosen = [part for part in parts if part.__name__ in sys.argv[1:]] or parts
    write(name, [figure for part in chosen for figure in part()])


def write(name, figures):
    """Write out/bench/<name>.json, and a line each to the terminal."""
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{name}.json").write_text(json.dumps([asdict(f) for f in figures], indent=1) + "\n")
    for f in figures:
        met = "met" if f.met else "MISSED"
        print(f"{f.what}: {f.ours:.4g}, {f.peer}: {f.peer_value:.4g}, "
              f"ratio {f.ratio:.2f} ({f.target}: {met})")  # fmt: skip
    sys.stdout.flush()
