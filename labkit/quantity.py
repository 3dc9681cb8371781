"""A figure computed from what was measured, with its error: `'VM' / 'Native'`.

Quoted is a condition, or `metric: condition` where the metric is not the one that the claim is
about. There are + - * / and numbers, and of one condition `median`, `mean`, `max`, `min`,
`p(99.9, 'VM')` and `variation` (the standard deviation of the runs' means over their mean); of
several figures `largest`, `smallest`, `middle` and `distance` (without its sign).

The block is what counts as evidence. The error is the wider of two: how the figure differs between
blocks, and how the pooled one moves when a block is left out (the jackknife).
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labkit import stats
from labkit.errors import BadInput
from labkit.stats import Blocks, Estimate

Values = npt.NDArray[np.float64]
Runs = Mapping[str, Sequence[Values]]
Sides = Mapping[str, Mapping[int, Values]]
Statistic = float | str
"""A percentile, or `mean`."""

SUMMARIES: Mapping[str, Callable[[Sequence[Values]], float]] = {
    "mean": lambda runs: float(np.concatenate(runs).mean()),
    "max": lambda runs: float(np.concatenate(runs).max()),
    "min": lambda runs: float(np.concatenate(runs).min()),
    "median": lambda runs: stats.percentile(np.concatenate(runs), 50),
    "variation": lambda runs: _variation([float(values.mean()) for values in runs]),
}
SEVERAL: Mapping[str, Callable[..., float]] = {
    "largest": max,
    "smallest": min,
    "middle": lambda *figures: float(np.median(figures)),
    "distance": lambda figure: abs(figure),
}
LEAST = 1e-12


@dataclass(frozen=True)
class Quantity:
    """An expression over conditions; a name alone stands for its `statistic` of `metric`."""

    text: str
    statistic: Statistic = 50
    metric: str = ""

    def __post_init__(self) -> None:
        _tree(self.text)

    @property
    def names(self) -> tuple[str, ...]:
        """What has to be measured, as the keys of the measurements."""
        nodes = [node for node in ast.walk(_tree(self.text)) if isinstance(node, ast.Constant)]
        quoted = [node.value for node in nodes if isinstance(node.value, str)]
        return tuple(dict.fromkeys(map(self._key, quoted)))

    @property
    def ratio(self) -> tuple[str, str] | None:
        """The two names, if it is one over the other and nothing else."""
        tree = _tree(self.text)
        if not (isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Div)):
            return None
        over, under = tree.left, tree.right
        return self._pair(over, under) if _is_name(over) and _is_name(under) else None

    @property
    def shown(self) -> str:
        """The expression as a reader sees it."""
        return self.text.replace("'", "")

    @property
    def percentiles(self) -> dict[str, float]:
        """Of which names a percentile is taken, and which."""
        found = dict.fromkeys(self.names, self.statistic)
        for node in ast.walk(_tree(self.text)):
            if isinstance(node, ast.Call) and _called(node) in ("p", *SUMMARIES):
                q: Statistic = ast.literal_eval(node.args[0]) if _called(node) == "p" else "mean"
                found[self._key(str(ast.literal_eval(node.args[-1])))] = q
        return {name: float(q) for name, q in found.items() if not isinstance(q, str)}

    def value(self, runs: Runs) -> float:
        """What it comes to; refused where it comes to nothing, as one over zero does."""
        try:
            value = float(self._value(_tree(self.text), runs))
        except ZeroDivisionError:
            value = math.nan
        if not math.isfinite(value):
            raise BadInput(f"{self.shown} has no value here: it divides by 0")
        return value

    def estimate(self, measured: Mapping[str, Blocks]) -> Estimate:
        """The value over all blocks that the conditions share, with its error."""
        if self.ratio and not isinstance(self.statistic, str):
            over, under = self.ratio
            return stats.ratio_estimate(measured[over], measured[under], float(self.statistic))
        sides = {name: self._one_by_one(measured[name]) for name in self.names}
        common = sorted(set.intersection(*(set(blocks) for blocks in sides.values())))
        if len(common) >= stats.FEWEST_BLOCKS:
            sides = {name: {k: blocks[k] for k in common} for name, blocks in sides.items()}
            return self._paired(sides, common)
        return self._apart(sides)

    # A mean, or a figure of two conditions, is taken from the samples themselves.
    def _one_by_one(self, blocks: Blocks) -> Mapping[int, Values]:
        kept = {block: values for block, values in blocks.items() if isinstance(values, np.ndarray)}
        if len(kept) < len(blocks):
            raise BadInput(
                f"{self.shown} needs every sample, and of some runs only counts are kept"
            )
        return kept

    def _paired(self, sides: Sides, common: Sequence[int]) -> Estimate:
        all_of = {name: list(blocks.values()) for name, blocks in sides.items()}
        logarithmic = self._positive(all_of)
        scale = math.log if logarithmic else float
        value = self.value(all_of)
        without = [
            scale(self.value({n: [b[k] for k in common if k != out] for n, b in sides.items()}))
            for out in common
        ]
        each = self._each(sides, common, scale)
        error = max(_jackknife(without), _spread(each), LEAST)
        middle = float(np.mean(each)) if each else scale(value)
        low, high = sorted((scale(value), middle))
        return Estimate(value, low, high, error, error, len(common) - 1, len(common),
                        self._enough(sides), logarithmic)  # fmt: skip

    # Blocks that do not belong together: each condition's own error, added up.
    def _apart(self, sides: Sides) -> Estimate:
        all_of = {name: list(blocks.values()) for name, blocks in sides.items()}
        logarithmic = self._positive(all_of)
        scale = math.log if logarithmic else float
        value = self.value(all_of)
        errors = [
            _jackknife([
                scale(self.value({**all_of, name: [*runs[:out], *runs[out + 1 :]]}))
                for out in range(len(runs))
            ]) if len(runs) > 1 else 0.0
            for name, runs in all_of.items()
        ]  # fmt: skip
        fewest = min(len(runs) for runs in all_of.values())
        error = max(math.hypot(*errors), LEAST)
        return Estimate(value, scale(value), scale(value), error, error, max(fewest - 1, 1),
                        fewest, self._enough(sides), logarithmic)  # fmt: skip

    def _each(
        self, sides: Sides, common: Sequence[int], scale: Callable[[float], float]
    ) -> list[float]:
        if "variation" in self.text:
            return []  # one run has none
        return [scale(self.value({n: [b[k]] for n, b in sides.items()})) for k in common]

    def _positive(self, runs: Runs) -> bool:
        return bool(self.ratio) and all(v.min() > 0 for side in runs.values() for v in side)

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

    def _value(self, node: ast.expr, runs: Runs) -> float:
        if isinstance(node, ast.Constant):
            if not isinstance(node.value, str):
                return float(node.value)  # type: ignore[arg-type]
            return _summary(self.statistic, runs[self._key(node.value)])
        if isinstance(node, ast.UnaryOp):
            return -self._value(node.operand, runs)
        if isinstance(node, ast.BinOp):
            left, right = self._value(node.left, runs), self._value(node.right, runs)
            return _OPERATORS[type(node.op)](left, right)
        assert isinstance(node, ast.Call)
        if (name := _called(node)) in SEVERAL:
            return SEVERAL[name](*(self._value(part, runs) for part in node.args))
        q = ast.literal_eval(node.args[0]) if name == "p" else name
        return _summary(q, runs[self._key(str(ast.literal_eval(node.args[-1])))])

    def _pair(self, over: ast.expr, under: ast.expr) -> tuple[str, str]:
        first, second = (self._key(str(ast.literal_eval(node))) for node in (over, under))
        return first, second

    def _key(self, name: str) -> str:
        return f"{self.metric}: {name}" if self.metric and ": " not in name else name


_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}


# Python's own parser reads the expression; nothing of it is ever run.
@functools.lru_cache(maxsize=4096)
def _tree(text: str) -> ast.expr:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        _insist(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError, BadInput) as odd:
        raise BadInput(f"{text!r} is no quantity", said=str(odd)) from None
    return tree


def _insist(node: ast.expr) -> None:
    if isinstance(node, ast.Constant) and type(node.value) in (str, int, float):
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _insist(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        _insist(node.left)
        return _insist(node.right)
    name = _called(node)
    if isinstance(node, ast.Call) and name in SEVERAL and node.args:
        for part in node.args:
            _insist(part)
        return None
    if isinstance(node, ast.Call) and name in SUMMARIES and [*map(_is_name, node.args)] == [True]:
        return None
    if isinstance(node, ast.Call) and name == "p" and len(node.args) == 2:
        stats.beyond(float(ast.literal_eval(node.args[0])), 1)  # refuses what is no percentile
        if _is_name(node.args[1]):
            return None
    raise ValueError(f"{ast.unparse(node)} may not stand in one")


def _called(node: ast.expr) -> str:
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords
    return node.func.id if named else ""  # type: ignore[attr-defined]


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _summary(statistic: Statistic, runs: Sequence[Values]) -> float:
    if isinstance(statistic, str):
        return SUMMARIES[statistic](runs)
    return stats.percentile(np.concatenate(runs), statistic)


def _variation(means: Sequence[float]) -> float:
    return float(np.std(means, ddof=1) / np.mean(means)) if len(means) > 1 else 0.0


def _jackknife(without: Sequence[float]) -> float:
    return float(np.std(without)) * math.sqrt(len(without) - 1)


def _spread(each: Sequence[float]) -> float:
    return float(np.std(each, ddof=1)) / math.sqrt(len(each)) if len(each) > 1 else 0.0
