"""A verdict on one claim, and its reason in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from labkit.comparison import MARGIN as MARGIN
from labkit.comparison import RISK as RISK
from labkit.comparison import SAME as SAME
from labkit.comparison import Comparison as Comparison
from labkit.comparison import Found as Found
from labkit.comparison import check_margin as check_margin
from labkit.comparison import figure
from labkit.comparison import named as named
from labkit.statistics import percentiles
from labkit.statistics.spending import History, spent

HOLDS, CONTRADICTED = "holds", "contradicted"
UNDECIDED, NOT_TESTABLE = "undecided", "not testable here"


@dataclass(frozen=True)
class Verdict:
    """The measurements' verdict on one claim; `why` is a sentence with the figures.

    `effect` is the figure that is most in doubt, with an interval that holds at all looks in 95 of
    100 studies. An end is None where the measurements set no limit. `published` is the document's.
    """

    claim: str
    statement: str
    form: str
    verdict: str
    why: str
    effect: float | None
    low: float | None
    high: float | None
    published: float | None
    blocks: int
    source: str
    percentile: float | None = None
    """Of the study's metric, if `effect` is one condition's over another's."""
    among: int = 0
    """The number of comparisons, this claim's included, that share one risk of 5 % (Holm)."""
    p: float | None = None
    """Of `effect`, as if this were the only comparison and the only look."""
    counted: float | None = None
    """The same p value as it counts among all comparisons, over all looks: clear up to 0.05."""
    looks: tuple[int, ...] = ()
    """The blocks that `effect` had at each look at it, the last one being this."""
    spent: float | None = None
    """The part of the 5 % risk that these looks have spent."""
    more: int | None = None
    """About how many more blocks would decide it, if it is undecided."""
    student: tuple[float, float] | None = None
    """A second opinion, where it differs by more than half: Student's t of the blocks alone."""
    margin: float | None = None
    """The distance that was too small to matter: 0.05 is 5 % to either side of the limit."""
    comparisons: Mapping[str, History] = field(default_factory=dict)
    """Its comparisons: the looks at each, and the one at which it was decided, which it stays."""
    given_up: str = ""
    """Reason why a study with a budget stopped before deciding this, and what that would take."""


def verdict_on(
    about: tuple[str, str, str], verdict: str, why: str, source: str, found: Found | None
) -> Verdict:
    """The verdict with the figures that were found, if any were."""
    if found is None:
        return Verdict(*about, verdict, why, None, None, None, None, 0, source)
    (low, high), quantity, history = found.ends, found.comparison.what, found.history
    alone = quantity.ratio and not quantity.metric and not isinstance(quantity.statistic, str)
    second = found.second and found.second.interval(found.confidence)
    if history.at not in (0, found.blocks):
        why = f"{why}; decided at {history.at} blocks"
    return Verdict(
        *about, verdict, why, found.estimate.value, low, high, found.comparison.printed,
        found.blocks, source, float(quantity.statistic) if alone else None, found.among, found.p,
        found.counted, history.looks,
        spent(RISK, history.looks[0], history.looks[-1]) if history.looks else None,
        found.more if verdict == UNDECIDED else None,
        (second.low, second.high) if second else None, found.comparison.margin or None,
    )  # fmt: skip


def one_risk(among: Iterable[int]) -> str:
    """The remark under verdicts that were made together; empty if there was one comparison."""
    together = max(among, default=0)
    if together < 2:
        return ""
    return f"All {together} comparisons share one risk of 5 % of a wrong verdict (Holm)."


def wanting(waiting: Sequence[Found], shown: Found) -> str:
    """State what is in doubt and what would settle it; far percentiles may also lack samples."""
    lacking = max((f for f in waiting if not f.estimate.enough), key=lambda f: f.more, default=None)
    parts = []
    if shown.estimate.enough:
        parts.append(f"{shown.figures}{_crowd(shown)}: {_blocks(shown.more)}")
    if lacking and (
        not lacking.lacking or lacking.blocks + lacking.more == percentiles.FEWEST_BLOCKS
    ):
        parts.append(
            f"{lacking.blocks} of {percentiles.FEWEST_BLOCKS} blocks: {_blocks(lacking.more)}"
        )
    elif lacking:
        q, (more, beyond) = max(lacking.lacking.items(), key=lambda found: found[1])
        few = f"{named(q)} needs {percentiles.BEYOND} samples beyond it and has {beyond}"
        parts.append(f"{few}: {_blocks(more)} of this size")
    return "; ".join(parts)


def close(shown: Found) -> str:
    """The remark on a figure that is too close to its limit to matter."""
    low, high = shown.band or (math.nan, math.nan)
    return f"{shown.figures}, within {figure(low, 3)} to {figure(high, 3)}: too close to matter"


# What would be clear by itself, and is not.
def _crowd(shown: Found) -> str:
    if shown.p > RISK:
        return ""
    among = f" among {shown.among} comparisons" if shown.among > 1 else ""
    many = len(shown.history.looks)
    over = f" at look {many}" if many > 1 else " at a first look" if not among else ""
    return f", not clear{among}{over}"


def looked(taken: Iterable[tuple[Sequence[int], float | None]]) -> str:
    """The remark on the looks verdicts took, and what they spent; empty if none was judged."""
    looks, spent = max(((tuple(at), part or 0.0) for at, part in taken), default=((), 0.0))
    if not looks:
        return ""
    often = "once" if len(looks) == 1 else f"{len(looks)} times"
    took = f"that took {100 * spent:.2g} % of the risk of 5 %"
    blocks = "block" if looks[-1] == 1 else "blocks"
    return f"These results were judged {often}, at {_listed(looks)} {blocks}: {took}."


def _listed(looks: Sequence[int]) -> str:
    first = ", ".join(map(str, looks[:-1]))
    return f"{first} and {looks[-1]}" if first else str(looks[-1])


def _blocks(more: int) -> str:
    if more > percentiles.MOST_BLOCKS:
        return f"more than {percentiles.MOST_BLOCKS} more blocks"
    return f"about {more} more block{'s' if more > 1 else ''}"
