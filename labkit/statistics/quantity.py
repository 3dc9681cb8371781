"""A figure computed from what was measured, with its error: `'VM' / 'Native'`.

Quoted is a condition, or `metric: condition` where the metric is not the one that the claim is
about. It knows + - * / and numbers. One condition has `median`, `mean`, `max`, `min` and
`p(99.9, 'VM')`. Of its runs' means it has `average`, where each run weighs alike, and `variation`,
their standard deviation over their mean. `count` and `share` are the means of counts and of trials,
with exact intervals (`counts.py`). Several figures have `largest`, `smallest`, `middle` and
`distance`, which has no sign.

`estimate.py` gives it its error.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
WHOLES = {"part": 1.0, "percent": 100.0}
"""Kinds of values that are shares of a whole, and the whole."""
PARTS = {"share": "part", "%": "percent"}
"""Their kinds by unit."""
Term = tuple[str, Statistic]
"""The key of a condition, and the statistic that is taken."""


@dataclass(frozen=True)
class Quantity:
    """An expression over conditions; a name alone stands for its `statistic` of `metric`."""

    text: str
    statistic: Statistic = 50
    metric: str = ""
    kinds: tuple[tuple[str, str], ...] = ()
    """The names whose values are counts, or shares of trials, whatever statistic is asked for."""
    wholes: tuple[tuple[str, float], ...] = ()
    """The names whose values are shares of a whole, and that whole: 1, or 100."""

    def __post_init__(self) -> None:
        tree(self.text)

    @property
    def names(self) -> tuple[str, ...]:
        """The keys of the measurements that it needs."""
        return tuple(dict.fromkeys(map(self._key, self._quoted())))

    @property
    def unsaid_metric(self) -> str:
        """The metric of the names that say none; nothing where each says its own."""
        return self.metric if any(": " not in name for name in self._quoted()) else ""

    def _quoted(self) -> list[str]:
        nodes = [node for node in ast.walk(tree(self.text)) if isinstance(node, ast.Constant)]
        return [node.value for node in nodes if isinstance(node.value, str)]

    @property
    def ratio(self) -> tuple[str, str] | None:
        """The two names, if it is one over the other and nothing else."""
        match tree(self.text):
            case ast.BinOp(left, ast.Div(), right) if is_name(left) and is_name(right):
                return self._key_of(left), self._key_of(right)
        return None

    @property
    def keeps_unit(self) -> bool:
        """Whether it has the unit of its names, as a difference does, and a ratio does not."""
        places = {term: 1 + 0.7 * at for at, term in enumerate(self.terms())}

        def value(scale: float) -> float:
            return self.of(lambda t: places[t] * (1.0 if t[1] == "variation" else scale))

        try:
            return bool(places) and math.isclose(value(2.0), 2 * value(1.0), abs_tol=1e-9)
        except BadInput:
            return False

    def as_difference(self) -> Quantity:
        """The one less the other, of what is one over the other."""
        expression = tree(self.text)
        assert isinstance(expression, ast.BinOp)
        text = f"{ast.unparse(expression.left)} - {ast.unparse(expression.right)}"
        return replace(self, text=text)

    @property
    def shown(self) -> str:
        """The expression as a reader sees it."""
        return self.text.replace("'", "")

    @property
    def percentiles(self) -> dict[str, float]:
        """The names that a percentile is taken of, and that percentile."""
        return {name: q for name, q in self.terms() if not isinstance(q, str)}

    def of_kinds(self, kinds: Mapping[str, str]) -> Quantity:
        """Itself, where these names have values that are counts or shares of trials."""
        kinds_of = {name: kinds[name] for name in self.names if name in kinds}
        wholes = {name: WHOLES[kind] for name, kind in kinds_of.items() if kind in WHOLES}
        pairs = {name: kind for name, kind in kinds_of.items() if name not in wholes}
        distinct = {pairs.get(name, "") for name in self.names}
        statistic = self.statistic if len(distinct) > 1 else distinct.pop() or self.statistic
        return replace(
            self, statistic=statistic, kinds=(*pairs.items(),), wholes=(*wholes.items(),)
        )

    def range_of(self, floor: float, ceilings: Mapping[str, float]) -> Range:
        """Between what it lies if no value is below `floor`, nor that of a name above its own."""

        def of_name(node: ast.expr) -> Range:
            key, statistic = self._term(node) or ("", "")
            width = math.inf if statistic == "variation" else ceilings.get(key, math.inf)
            return floor, width

        return range_of(tree(self.text), of_name)

    def value(self, runs: Mapping[str, Sequence[Values]]) -> float:
        """The value of the expression; refused if it has none, as one over zero."""
        return self.of(lambda term: summary(term[1], runs[term[0]]))

    def of(self, figure: Callable[[Term], float]) -> float:
        """The value if `figure` gives the number of each term; refused as `value` is."""
        try:
            value = float(self._value(tree(self.text), figure))
        except ZeroDivisionError:
            value = math.nan
        if not math.isfinite(value):
            raise self.divides()
        return value

    def divides(self) -> BadInput:
        """The error for what comes to nothing."""
        return BadInput(f"{self.shown} has no value here: it divides by 0")

    def all_of(self, figures: Mapping[Term, float | Values]) -> Values:
        """The value for numbers or arrays of them; not finite if it divides by 0."""
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
            first, second = self._value(node.left, figure), self._value(node.right, figure)
            return OPERATORS[type(node.op)](first, second)
        assert isinstance(node, ast.Call)
        return FUNCTIONS[called(node)](*(self._value(part, figure) for part in node.args))

    @property
    def alone(self) -> Term | None:
        """The one term that it is, if there is no arithmetic."""
        return self._term(tree(self.text))

    def terms(self) -> list[Term]:
        """Each name with the figure taken of it, once."""
        terms_of, waiting = [], [tree(self.text)]
        while waiting:
            node = waiting.pop()
            if (term := self._term(node)) is not None:
                terms_of.append(term)
            else:
                waiting += [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
        return list(dict.fromkeys(terms_of))

    def _term(self, node: ast.expr) -> Term | None:
        q: Statistic = self.statistic
        if (name := called(node)) in ("p", *SUMMARIES):
            assert isinstance(node, ast.Call)
            q = float(ast.literal_eval(node.args[0])) if name == "p" else name
        elif not is_name(node):
            return None
        key = self._key_of(node)
        return key, dict(self.kinds).get(key, q)

    # A name, or the last word of a call.
    def _key_of(self, node: ast.expr) -> str:
        name = node.args[-1] if isinstance(node, ast.Call) else node
        return self._key(str(ast.literal_eval(name)))

    def _key(self, name: str) -> str:
        return f"{self.metric}: {name}" if self.metric and ": " not in name else name


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
def _join(kind: type[ast.operator], a: Range, b: Range) -> Range:
    if kind is ast.Add:
        return a[0] + b[0], a[1] + b[1]
    if kind is ast.Sub:
        return a[0] - b[1], a[1] - b[0]
    if min(*a, *b) < 0:
        return -math.inf, math.inf
    is_product = kind is ast.Mult and math.inf not in (a[0], b[0])
    return a[0] * b[0] if is_product else 0.0, math.inf


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
