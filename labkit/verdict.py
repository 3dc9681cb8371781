"""A verdict on one claim, and its reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from labkit.machine.units import figure, shown
from labkit.reason import Reason, What, figures, why
from labkit.statistics.comparison import MARGIN as MARGIN
from labkit.statistics.comparison import RISK as RISK
from labkit.statistics.comparison import SAME as SAME
from labkit.statistics.comparison import Comparison as Comparison
from labkit.statistics.comparison import Effect
from labkit.statistics.comparison import Found as Found
from labkit.statistics.comparison import check_margin as check_margin
from labkit.statistics.comparison import named as named
from labkit.statistics.pooled import FEWEST_BLOCKS
from labkit.statistics.spending import History

HOLDS, CONTRADICTED = "holds", "contradicted"
UNDECIDED, NOT_TESTABLE = "undecided", "not testable here"
AGREES, DIFFERS, UNCLEAR = "agrees", "differs", "unclear"
REAL_KERNEL = "real kernel"
"""The kernel and the CPUs of the machine that a box is on, as for its containers."""


@dataclass(frozen=True)
class LocalFigure:
    """The figure that was measured beside the document's, whether or not it tests the claim."""

    says: str
    effect: Effect
    reach: str
    """The reach of the figure: hardware, this machine's kernel, or emulated guests."""
    p: float = 1.0
    unit: str = ""
    """Empty for ratios and the like, which have none."""

    def __str__(self) -> str:
        document = self.effect.printed
        beside = "" if document is None else f"; the document: {figure(document)}{self.of_unit}"
        return f"{figures(self.effect, self.of_unit)}{beside}; {self.says} ({self.reach})"

    @property
    def of_unit(self) -> str:
        """The unit as it follows a figure."""
        return f" {shown(self.unit)}" if self.unit else ""


@dataclass(frozen=True)
class Verdict:
    """The measurements' verdict on one claim, and the reasons of it.

    `effect` is the figure that is most in doubt, with an interval that holds at all looks in 95 of
    100 studies. An end is None where the measurements set no limit. `published` is the document's.
    """

    claim: str
    statement: str
    form: str
    verdict: str
    reasons: tuple[Reason, ...]
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    published: float | None = None
    blocks: int = 0
    source: str = ""
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
    margin: float | None = None
    """The distance that was too small to matter: 0.05 is 5 % to either side of the limit."""
    comparisons: Mapping[str, History] = field(default_factory=dict)
    """Its comparisons: the looks at each, and the one at which it was decided, which it stays."""
    each: tuple[float, ...] = ()
    """The figure in each block, where these are too few for an interval."""
    given_up: str = ""
    """Reason why a study with a budget stopped before deciding this, and what that would take."""
    local: LocalFigure | None = None
    """The measured figure of it; None where nothing was measured."""

    @property
    def why(self) -> str:
        """Its reasons as a sentence; the figure that was measured here stands beside it."""
        return why(self.reasons, self.local.effect if self.local else None)

    def also(self, *reasons: Reason) -> Verdict:
        """Itself with more reasons."""
        return replace(self, reasons=(*self.reasons, *reasons))

    def told(self) -> dict[str, Any]:
        """All of it for JSON, its reasons as values and as a sentence."""
        return {**asdict(self), "why": self.why, "measured": str(self.local or "")}


def one_risk(among: Iterable[int], noun: str = "comparisons") -> str:
    """The remark under verdicts that were made together; empty if there was one comparison."""
    together = max(among, default=0)
    if together < 2:
        return ""
    return f"All {together} {noun} share one risk of 5 % of a wrong verdict (Holm)."


def wanting(waiting: Sequence[Found], finding: Found) -> list[Reason]:
    """State what is in doubt and what would settle it; far percentiles may also lack samples."""
    lacking = max((f for f in waiting if not f.estimate.enough), key=lambda f: f.more, default=None)
    reasons = []
    if finding.estimate.enough:
        # What would be clear by itself, and is not.
        unclear = Reason(What.UNCLEAR, effect=finding.effect, more=finding.more)
        looks, among = len(finding.history.looks), finding.among if finding.p <= RISK else 0
        reasons.append(replace(unclear, count=looks, of=among))
    if lacking and (not lacking.lacking or lacking.blocks + lacking.more == FEWEST_BLOCKS):
        reason = Reason(What.FEW_BLOCKS, count=lacking.blocks, of=FEWEST_BLOCKS, more=lacking.more)
        reasons.append(reason)
    elif lacking:
        q, (more, beyond) = max(lacking.lacking.items(), key=lambda pair: pair[1])
        reasons.append(Reason(What.FEW_SAMPLES, number=q, count=beyond, more=more))
    return reasons


def looked(looks_taken: Iterable[tuple[Sequence[int], float | None]]) -> str:
    """The remark on the looks verdicts took, and what they spent; empty if none was judged."""
    looks, risk = max(((tuple(at), part or 0.0) for at, part in looks_taken), default=((), 0.0))
    if not looks:
        return ""
    often = "once" if len(looks) == 1 else f"{len(looks)} times"
    took = f"that took {100 * risk:.2g} % of the risk of 5 %"
    first = ", ".join(map(str, looks[:-1]))
    blocks = f"{f'{first} and ' if first else ''}{looks[-1]} block{'s' * (looks[-1] != 1)}"
    return f"These results were judged {often}, at {blocks}: {took}."
