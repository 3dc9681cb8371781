"""Further forms of what documents say: equals or exceeds, in every test, a tolerance, a rank."""

from dataclasses import dataclass
from itertools import chain, pairwise
from typing import ClassVar

from labkit.claim import Claim
from labkit.statistics.comparison import Comparison
from labkit.statistics.quantity import Quantity, Statistic

EQUAL = 1.05
"""The factor within which two figures are equal, unless a claim says otherwise."""
TOLERANCE = 0.1


@dataclass(frozen=True)
class AtLeast(Claim):
    """`over` equals or exceeds `under`: it is at most by the factor `within` lower."""

    form: ClassVar[str] = "equals or exceeds"

    percentile: Statistic = 50
    over: str = ""
    under: str = ""
    within: float = EQUAL

    def _fault(self) -> str:
        is_sound = self.over and self.under and self.within > 1
        return "" if is_sound else "it needs over, under, and a factor within above 1"

    def comparisons(self) -> list[Comparison]:
        """The one ratio, against its lower limit."""
        return [_not_below(self.over, self.under, self)]


@dataclass(frozen=True)
class Rank(Claim):
    """The conditions from the lowest to the highest; neighbours may be equal, the ends are not."""

    form: ClassVar[str] = "rank order"

    percentile: Statistic = 50
    conditions: tuple[str, ...] = ()
    within: float = EQUAL

    def _fault(self) -> str:
        is_sound = len(set(self.conditions)) > 2 and self.within > 1
        return (
            "" if is_sound else "a rank order needs three conditions, and a factor within above 1"
        )

    def comparisons(self) -> list[Comparison]:
        """Each with its neighbour, and the first with the last."""
        steps = [_not_below(b, a, self) for a, b in pairwise(self.conditions)]
        first, last = self.conditions[0], self.conditions[-1]
        return [*steps, Comparison.lower(first, last, self.percentile, self.metric)]


@dataclass(frozen=True)
class Near(Claim):
    """Each of these quantities is the document's figure, off by at most this share of it."""

    form: ClassVar[str] = "within a tolerance"

    percentile: Statistic = 50
    what: tuple[str, ...] = ()
    published: float = 0.0
    within: float = TOLERANCE

    def _fault(self) -> str:
        is_sound = self.what and self.published and 0 < self.within < 1
        needs = "a tolerance needs what, published (not 0), and a share within below 1"
        return "" if is_sound else needs

    def comparisons(self) -> list[Comparison]:
        """Each quantity, against both ends."""
        off = abs(self.published) * self.within
        ends = self.published - off, self.published + off
        return [
            Comparison(Quantity(text, self.percentile, self.metric), *ends, printed=self.published)
            for text in self.what
        ]


@dataclass(frozen=True)
class EveryTest(Claim):
    """The same claim of each of several metrics; one that fails contradicts it."""

    form: ClassVar[str] = "in every test"

    parts: tuple[Claim, ...] = ()

    def _fault(self) -> str:
        is_sound = len({part.metric for part in self.parts}) > 1
        return "" if is_sound else "every test is of two metrics at least"

    def comparisons(self) -> list[Comparison]:
        """The comparisons of each part."""
        return list(chain(*(part.comparisons() for part in self.parts)))


def _not_below(over: str, under: str, claim: AtLeast | Rank) -> Comparison:
    quantity = Quantity(f"'{over}' / '{under}'", claim.percentile, claim.metric)
    return Comparison(quantity, low=1 / claim.within)
