"""A figure computed from what was measured, with its error: `'VM' / 'Native'`.

Quoted is a condition, or `metric: condition` where the metric is not the one that the claim is
about. There are + - * / and numbers, and of one condition `median`, `mean`, `max`, `min`,
`p(99.9, 'VM')` and `variation` (the standard deviation of the runs' means over their mean); of
several figures `largest`, `smallest`, `middle` and `distance` (without its sign).

The block is what counts as evidence. Of percentiles two intervals are averaged, as of a ratio
(stats.py): Student's of the figure in each block, and that of the ranks. Of means and the like the
error is the mean (of squares) of how the figure differs between blocks and of how the pooled one
moves without a block (the jackknife). In far tails the interval also holds what slower runs than
the measured ones would make of it (unseen.py).
What can only be above 0 has an interval above 0.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from labkit.errors import BadInput
from labkit.statistics import percentiles as stats
from labkit.statistics.expression import (
    OPERATORS,
    SEVERAL,
    SUMMARIES,
    called,
    is_name,
    range_of,
    tree,
)
from labkit.statistics.far_tail import FAR_TAIL, left_out, possible
from labkit.statistics.figure import Figure, middling, summary
from labkit.statistics.figure import Statistic as Statistic
from labkit.statistics.figure import Values as Values
from labkit.statistics.percentiles import Blocks, Estimate
from labkit.statistics.pooled import Pooled

Runs = Mapping[str, Sequence[Values]]
Sides = Mapping[str, Mapping[int, Values]]
Term = tuple[str, Statistic]
"""The key of a condition, and what is taken of it."""
Seen = Mapping[Term, Figure]
Scale = Callable[[float], float]
SMALLEST = 1e-300
LEAST = 1e-12


@dataclass(frozen=True)
class Quantity:
    """An expression over conditions; a name alone stands for its `statistic` of `metric`."""

    text: str
    statistic: Statistic = 50
    metric: str = ""

    def __post_init__(self) -> None:
        tree(self.text)

    @property
    def names(self) -> tuple[str, ...]:
        """What has to be measured, as the keys of the measurements."""
        nodes = [node for node in ast.walk(tree(self.text)) if isinstance(node, ast.Constant)]
        quoted = [node.value for node in nodes if isinstance(node.value, str)]
        return tuple(dict.fromkeys(map(self._key, quoted)))

    @property
    def ratio(self) -> tuple[str, str] | None:
        """The two names, if it is one over the other and nothing else."""
        whole = tree(self.text)
        if not (isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Div)):
            return None
        over, under = whole.left, whole.right
        return self._pair(over, under) if is_name(over) and is_name(under) else None

    def as_difference(self) -> Quantity:
        """The one less the other, of what is one over the other."""
        whole = tree(self.text)
        assert isinstance(whole, ast.BinOp)
        text = f"{ast.unparse(whole.left)} - {ast.unparse(whole.right)}"
        return Quantity(text, self.statistic, self.metric)

    @property
    def shown(self) -> str:
        """The expression as a reader sees it."""
        return self.text.replace("'", "")

    @property
    def percentiles(self) -> dict[str, float]:
        """Of which names a percentile is taken, and which."""
        found = dict.fromkeys(self.names, self.statistic)
        for node in ast.walk(tree(self.text)):
            if isinstance(node, ast.Call) and called(node) in ("p", *SUMMARIES):
                q: Statistic = ast.literal_eval(node.args[0]) if called(node) == "p" else "mean"
                found[self._key(str(ast.literal_eval(node.args[-1])))] = q
        return {name: float(q) for name, q in found.items() if not isinstance(q, str)}

    def value(self, runs: Runs) -> float:
        """What it comes to; refused where it comes to nothing, as one over zero does."""
        return self._of(lambda term: summary(term[1], runs[term[0]]))

    def estimate(self, measured: Mapping[str, Blocks]) -> Estimate:
        """The value over all blocks that the conditions share, with its error."""
        if self.ratio and not isinstance(self.statistic, str):
            over, under = self.ratio
            return stats.ratio_estimate(measured[over], measured[under], float(self.statistic))
        if (alone := self._term(tree(self.text))) and not isinstance(alone[1], str):
            return self._alone(alone[1], measured[alone[0]])
        sides = {name: self._one_by_one(measured[name]) for name in self.names}
        common = sorted(set.intersection(*(set(blocks) for blocks in sides.values())))
        if len(common) >= stats.FEWEST_BLOCKS:
            sides = {name: {k: blocks[k] for k in common} for name, blocks in sides.items()}
            return self._paired(sides, common)
        return self._apart(sides)

    # One condition's percentile has the interval that tables and charts show of it.
    def _alone(self, q: float, blocks: Blocks) -> Estimate:
        pooled = Pooled.of(blocks)
        least = 0.0 if pooled.levels[0] >= 0 else -math.inf
        return replace(stats.estimate(pooled, q), range=(least, math.inf))

    # A mean, or a figure of two conditions, is taken from the samples themselves.
    def _one_by_one(self, blocks: Blocks) -> Mapping[int, Values]:
        kept = {block: values for block, values in blocks.items() if isinstance(values, np.ndarray)}
        if len(kept) < len(blocks):
            raise BadInput(
                f"{self.shown} needs every sample, and of some runs only counts are kept"
            )
        return kept

    def _paired(self, sides: Sides, common: Sequence[int]) -> Estimate:
        seen = {term: Figure.of(sides[term[0]], term[1]) for term in self.terms()}
        value = self._of(lambda term: seen[term].value)
        each, without = self._varied(seen, len(common))
        of_name, figures = self._range(sides), [value, *each, *without]
        logarithmic = of_name[0] >= 0 and min(figures) > 0
        scale = math.log if logarithmic else float
        each, without = [*map(scale, each)], [*map(scale, without)]
        middle, down, up = self._off(seen, scale, np.array(each), without)
        t = stats.student(len(common) - 1)
        down, up = max(down / t, LEAST), max(up / t, LEAST)
        largest = max(abs(value), *(abs(term.value) for term in seen.values()))
        return Estimate(value, middle, middle, down, up, len(common) - 1, len(common),
                        self._enough(sides), logarithmic, of_name, largest)  # fmt: skip

    # The middle of the 95 % interval, and how far it reaches down and up.
    def _off(
        self, seen: Seen, scale: Scale, each: Values, without: Sequence[float]
    ) -> tuple[float, float, float]:
        here, t = scale(self._of(lambda term: seen[term].value)), stats.student(len(without) - 1)
        if not any(figure.pooled for figure in seen.values()) or not each.size:
            typical = float(each.mean()) if each.size and self._cancels(list(seen)) else here
            half = t * middling([*each], without) + abs(here - typical) / 2
            return (here + typical) / 2, half, half
        error = stats.spread(each)
        away = stats.steps(error, self._own(seen, scale, each.size), t)
        ranks, clock = self._by_rank(seen, scale, away)
        few = stats.few_in_a_block(*(figure.pooled for figure in seen.values() if figure.pooled))
        middle, down, up = stats.averaged(here, each, t * error, None if few else ranks)
        low, high = self._unseen(seen, scale, middle)
        down, up = max(down, middle - low), max(up, high - middle)
        return middle, math.hypot(down, t * clock), math.hypot(up, t * clock)

    # The error of the figure if the blocks of one term differ, and the others do not.
    def _own(self, seen: Seen, scale: Scale, blocks: int) -> list[float]:
        return [stats.spread([*map(scale, self._varied(seen, blocks, term)[0])]) for term in seen]

    # How far down and up the ranks let it go, and how far a coarse clock may move it.
    def _by_rank(
        self, seen: Seen, scale: Scale, errors: float
    ) -> tuple[tuple[float, float], float]:
        def moved(term: Term, end: float) -> float:
            figure = self._of(lambda t: end if t == term else seen[t].value)
            return scale(figure if scale is float else max(figure, SMALLEST)) - here

        here = scale(self._of(lambda t: seen[t].value))
        ends = [sorted(moved(t, end) for end in seen[t].ends(errors)) for t in seen]
        clocks = [moved(t, s.value + s.clock) for t, s in seen.items() if s.clock]
        down = math.hypot(*(min(low, 0.0) for low, _ in ends))
        up = math.hypot(*(max(high, 0.0) for _, high in ends))
        return (down, up), math.hypot(*clocks)

    # Whether it stays as it is when all conditions are slower by the same factor.
    def _cancels(self, terms: Sequence[Term]) -> bool:
        figures = {term: 2.0 + math.sqrt(at + 2) for at, term in enumerate(terms)}
        try:
            before = self._of(figures.__getitem__)
            return math.isclose(before, self._of(lambda term: 3 * figures[term]), abs_tol=1e-12)
        except BadInput:
            return False

    # What runs that were not measured may make of it, at the least and at the most.
    def _unseen(self, seen: Seen, scale: Scale, middle: float) -> tuple[float, float]:
        far = {term: (s.pooled, s.q) for term, s in seen.items() if s.pooled and s.q > FAR_TAIL}
        if not far:
            return middle, middle
        here = {term: s.value for term, s in seen.items()}
        sets: dict[Term, Any] = dict(zip(far, possible([*far.values()]), strict=True))
        found = self.all_of({**here, **sets})
        found = found[np.isfinite(found)] if scale is float else np.maximum(found, SMALLEST)
        if not found.size:
            return middle, middle
        out = left_out([q for _, q in far.values()], cancels=self._cancels(list(seen)))
        low, high = (scale(float(end)) for end in np.quantile(found, (out, 1 - out)))
        return low, high

    # The figure in each block and without each; of the blocks of one term only, if one is named.
    def _varied(
        self, seen: Seen, blocks: int, only: Term | None = None
    ) -> tuple[list[float], list[float]]:
        def figures(of: Callable[[Figure], Values]) -> list[float]:
            varied = {t: of(s) for t, s in seen.items() if only in (None, t)}
            fixed = {t: s.value for t, s in seen.items()}
            found = self.all_of({**fixed, **varied})
            if not np.isfinite(found).all():
                raise self._divides()
            return [*map(float, np.broadcast_to(found, blocks))]

        one_run_has_it = not any(statistic == "variation" for _, statistic in seen)
        each = figures(lambda term: term.each) if one_run_has_it else []
        return each, figures(lambda term: term.without)

    # Blocks that do not belong together: each condition's own error, added up.
    def _apart(self, sides: Sides) -> Estimate:
        all_of = {name: list(blocks.values()) for name, blocks in sides.items()}
        value, of_name = self.value(all_of), self._range(sides)
        without = {
            name: [self.value({**all_of, name: [*runs[:out], *runs[out + 1 :]]})
                   for out in range(len(runs))] if len(runs) > 1 else []
            for name, runs in all_of.items()
        }  # fmt: skip
        logarithmic = of_name[0] >= 0 and min([value, *chain(*without.values())]) > 0
        scale = math.log if logarithmic else float
        errors = [
            stats.jackknife([*map(scale, some)]) if some else 0.0 for some in without.values()
        ]
        fewest = min(len(runs) for runs in all_of.values())
        error = max(math.hypot(*errors), LEAST)
        return Estimate(value, scale(value), scale(value), error, error, max(fewest - 1, 1),
                        fewest, self._enough(sides), logarithmic, of_name)  # fmt: skip

    def _range(self, sides: Sides) -> tuple[float, float]:
        least = min(values.min() for blocks in sides.values() for values in blocks.values())
        return range_of(tree(self.text), (0.0 if least >= 0 else -math.inf, math.inf))

    def _enough(self, sides: Sides) -> bool:
        blocks = min(len(side) for side in sides.values())
        return blocks >= stats.FEWEST_BLOCKS and not any(self.lacking(sides).values())

    def lacking(self, measured: Mapping[str, Blocks] | Sides) -> dict[float, int]:
        """Percentile -> how many more blocks it takes before it can be called measured."""
        asked = self.percentiles.items()
        lacking: dict[float, int] = {}
        for name, q in asked:
            lacking[q] = max(lacking.get(q, 0), stats.samples_needed(measured[name], q))
        return lacking

    def beyond(self, q: float, measured: Mapping[str, Blocks]) -> int:
        """How many samples lie beyond that percentile, where there are the fewest."""
        names = [name for name, asked in self.percentiles.items() if asked == q]
        sizes = [stats.count(measured[name]) for name in names]
        return min(stats.beyond(q, size) for size in sizes)

    def _of(self, figure: Callable[[Term], float]) -> float:
        try:
            value = float(self._value(tree(self.text), figure))
        except ZeroDivisionError:
            value = math.nan
        if not math.isfinite(value):
            raise self._divides()
        return value

    def _divides(self) -> BadInput:
        return BadInput(f"{self.shown} has no value here: it divides by 0")

    def all_of(self, figures: Mapping[Term, float | Values]) -> Values:
        """What it comes to, of numbers or of arrays of them; not finite where it divides by 0."""
        with np.errstate(all="ignore"):
            try:
                return np.asarray(self._value(tree(self.text), figures.__getitem__), np.float64)
            except ZeroDivisionError:
                return np.array(math.nan)

    # Of numbers, or of arrays of them.
    def _value(self, node: ast.expr, figure: Callable[[Term], Any]) -> Any:
        if (term := self._term(node)) is not None:
            return figure(term)
        if isinstance(node, ast.Constant):
            return float(node.value)  # type: ignore[arg-type]
        if isinstance(node, ast.UnaryOp):
            return -self._value(node.operand, figure)
        if isinstance(node, ast.BinOp):
            left, right = self._value(node.left, figure), self._value(node.right, figure)
            return OPERATORS[type(node.op)](left, right)
        assert isinstance(node, ast.Call)
        return SEVERAL[called(node)](*(self._value(part, figure) for part in node.args))

    def terms(self) -> list[Term]:
        """What is taken of which names, each once."""
        found, waiting = [], [tree(self.text)]
        while waiting:
            node = waiting.pop()
            if (term := self._term(node)) is not None:
                found.append(term)
            else:
                waiting += [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
        return list(dict.fromkeys(found))

    def _term(self, node: ast.expr) -> Term | None:
        if is_name(node):
            return self._key(str(ast.literal_eval(node))), self.statistic
        if (name := called(node)) in ("p", *SUMMARIES):
            assert isinstance(node, ast.Call)
            q: Statistic = float(ast.literal_eval(node.args[0])) if name == "p" else name
            return self._key(str(ast.literal_eval(node.args[-1]))), q
        return None

    def _pair(self, over: ast.expr, under: ast.expr) -> tuple[str, str]:
        first, second = (self._key(str(ast.literal_eval(node))) for node in (over, under))
        return first, second

    def _key(self, name: str) -> str:
        return f"{self.metric}: {name}" if self.metric and ": " not in name else name
