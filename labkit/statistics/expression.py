"""The expressions of quantities: what may stand in one, and between what its figure must lie."""

import ast
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from labkit.errors import BadInput, Unknown
from labkit.statistics.pooled import Values, beyond, percentile

Range = tuple[float, float]
Statistic = float | str
"""A percentile, `mean`, or `average`, where each run weighs alike."""

SUMMARIES: Mapping[str, Callable[[Sequence[Values]], float]] = {
    **dict.fromkeys(("mean", "count", "share"), lambda runs: float(np.concatenate(runs).mean())),
    "average": lambda runs: float(np.mean([values.mean() for values in runs])),
    "max": lambda runs: float(np.concatenate(runs).max()),
    "min": lambda runs: float(np.concatenate(runs).min()),
    "median": lambda runs: percentile(np.concatenate(runs), 50),
    "variation": lambda runs: variation([float(values.mean()) for values in runs]),
}
# Of numbers, or of arrays of them.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "largest": lambda *figures: np.max(np.broadcast_arrays(*figures), axis=0),
    "smallest": lambda *figures: np.min(np.broadcast_arrays(*figures), axis=0),
    "middle": lambda *figures: np.median(np.broadcast_arrays(*figures), axis=0),
    "distance": lambda figure: abs(figure),
}
OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}


# Python's own parser reads the expression; nothing of it is ever run.
@functools.lru_cache(maxsize=4096)
def tree(text: str) -> ast.expr:
    """The expression, read; anything but arithmetic of names is refused."""
    try:
        expression = ast.parse(text.strip(), mode="eval").body
        _insist(expression)
    except (SyntaxError, ValueError, RecursionError, MemoryError, BadInput) as error:
        raise BadInput(f"{text!r} is not a quantity", said=str(error)) from None
    return expression


def _insist(node: ast.expr) -> None:
    if isinstance(node, ast.Constant) and type(node.value) in (str, int, float):
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _insist(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        _insist(node.left)
        return _insist(node.right)
    name = called(node)
    if isinstance(node, ast.Call) and name in FUNCTIONS and node.args:
        for part in node.args:
            _insist(part)
        return None
    if isinstance(node, ast.Call) and name in SUMMARIES and [*map(is_name, node.args)] == [True]:
        return None
    if isinstance(node, ast.Call) and name == "p" and len(node.args) == 2:
        beyond(float(ast.literal_eval(node.args[0])), 1)  # refuses what is no percentile
        if is_name(node.args[1]):
            return None
    raise ValueError(f"{ast.unparse(node)} may not stand in one")


def called(node: ast.expr) -> str:
    """The name of the function that is called; empty if none is."""
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords
    return node.func.id if is_call else ""  # type: ignore[attr-defined]


def is_name(node: ast.expr) -> bool:
    """Whether it is a condition, quoted."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def range_of(node: ast.expr, of_name: Callable[[ast.expr], Range]) -> Range:
    """Between what the figure lies, whatever is measured; each name lies in `of_name` of it."""
    if isinstance(node, ast.Constant):
        return of_name(node) if isinstance(node.value, str) else (float(node.value),) * 2  # type: ignore[arg-type]
    if isinstance(node, ast.UnaryOp):
        low, high = range_of(node.operand, of_name)
        return -high, -low
    if isinstance(node, ast.BinOp):
        first, second = range_of(node.left, of_name), range_of(node.right, of_name)
        return _join(type(node.op), first, second)
    assert isinstance(node, ast.Call)
    if (name := called(node)) not in FUNCTIONS:
        return of_name(node)
    ranges = [range_of(part, of_name) for part in node.args]
    if name == "distance":
        return 0.0, max(map(abs, ranges[0]))
    low, high = (float(FUNCTIONS[name](*ends)) for ends in zip(*ranges, strict=True))
    return low, high


# Only what is needed to see that a figure is never below 0, or never above 1.
def _join(operator: type[ast.operator], a: Range, b: Range) -> Range:
    if operator is ast.Add:
        return a[0] + b[0], a[1] + b[1]
    if operator is ast.Sub:
        return a[0] - b[1], a[1] - b[0]
    if min(*a, *b) < 0:
        return -math.inf, math.inf
    if operator is ast.Mult:
        return a[0] * b[0] if math.inf not in (a[0], b[0]) else 0.0, math.inf
    return 0.0, math.inf


def check_statistic(statistic: Statistic) -> None:
    """Refuse what is no percentile and no name of a summary."""
    if isinstance(statistic, str) and statistic not in SUMMARIES:
        raise Unknown("statistic", statistic, SUMMARIES)
    if not isinstance(statistic, str) and not 0 < statistic < 100:
        raise BadInput(f"a percentile lies between 0 and 100, not at {statistic:g}")


def summary(statistic: Statistic, runs: Sequence[Values]) -> float:
    """The percentile, mean or the like of all samples of these runs."""
    if isinstance(statistic, str):
        return SUMMARIES[statistic](runs)
    return percentile(np.concatenate(runs), statistic)


def variation(means: Sequence[float]) -> float:
    """The standard deviation of the runs' means over their mean; 0 of a single run."""
    return float(np.std(means, ddof=1) / np.mean(means)) if len(means) > 1 else 0.0
