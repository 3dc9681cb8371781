"""A shop as it is before the first order: filled once, checked by counts and sums, then copied."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import ClassVar, Protocol, cast

from labkit.errors import LabkitError, Unknown
from labkit.shop.answers import Asked, Listening, Refused, ShopRows
from labkit.shop.stock import COLUMNS, Size, StockTable, script, tables

ENGINES = {
    "postgresql": "labkit.shop.postgres:Postgres",
    "mariadb": "labkit.shop.mariadb:MariaDb",
}
DATABASE, TEMPLATE = "labkit_shop", "labkit_stock"
FORM = 1
"""The version of the generator's rows and tables; what another one filled is filled again."""
STARTING, RECOVERY_SECONDS = "57P03", 120.0
Counts = Mapping[str, tuple[int, int]]
Tell = Callable[[str], None]


class Database(Asked, Protocol):
    """A connection to any of the engines."""

    about: ClassVar[str]
    """The query for its name and version."""

    def __init__(self, at: Listening, secret: str, database: str = ...) -> None: ...
    @classmethod
    def exists(cls, at: Listening, secret: str, database: str) -> bool:
        """Whether there is a database of that name."""

    @classmethod
    def make(cls, at: Listening, secret: str, database: str, like: str = "") -> None:
        """Make a database, a copy of another one if so asked; one of that name is gone then."""

    def query(self, words: str) -> ShopRows:
        """Ask once, and wait."""

    def fill(self, table: StockTable) -> tuple[int, int]:
        """Load a table."""


def engine_of(name: str) -> type[Database]:
    """The class that speaks to an engine."""
    if name not in ENGINES:
        raise Unknown("engine", name, ENGINES)
    module, _, name_in_module = ENGINES[name].partition(":")
    return cast("type[Database]", getattr(importlib.import_module(module), name_in_module))


def awaited(speaks: type[Database], at: Listening, secret: str) -> None:
    """Wait for one that listens already, but is still putting right what a crash has left."""
    until = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            return speaks(at, secret).close()
        except Refused as error:
            if error.code != STARTING or time.monotonic() > until:
                raise
            time.sleep(0.1)


def fresh(engine: str, at: Listening, secret: str, size: str, seed: int, tell: Tell) -> Counts:
    """Make the shop new from what was filled once; fill that first if it is not there whole."""
    speaks = engine_of(engine)
    counts_now: Counts = {}
    reason = _lacking(speaks, at, secret, size, seed)
    if not reason:
        counts_now, reason = _copy(speaks, at, secret)
    if reason:
        tell(f"filling {size} with seed {seed}: {reason}")
        fill_stock(engine, at, secret, size, seed)
        counts_now, reason = _copy(speaks, at, secret)
    if reason:
        raise LabkitError(f"the copy of a shop that was just filled has lost rows: {reason}")
    return counts_now


# What the copy holds, and what it lacks of what was filled once.
def _copy(speaks: type[Database], at: Listening, secret: str) -> tuple[Counts, str]:
    speaks.make(at, secret, DATABASE, TEMPLATE)
    with closing(speaks(at, secret, DATABASE)) as shop:
        sums, goal = counts(shop), loaded(shop)
    wrong = [
        f"{name} has {sums[name]}, not {goal.get(name)} rows and sum"
        for name in COLUMNS
        if sums[name] != goal.get(name)
    ]
    return sums, f"the existing one is incomplete: {wrong[0]}" if wrong else ""


# Why it has to be filled; empty where it is there whole.
def _lacking(speaks: type[Database], at: Listening, secret: str, size: str, seed: int) -> str:
    if not speaks.exists(at, secret, TEMPLATE):
        return "there is none yet"
    with closing(speaks(at, secret, TEMPLATE)) as stock:
        sums: Counts = {}
        with suppress(Refused):
            sums = loaded(stock)
    if "whole" not in sums:
        return "the existing one was only half loaded"
    if sums["whole"] != (FORM, seed):
        return f"the existing one has another seed, {sums['whole'][1]}, or form"
    goal = Size.of(size)
    size_now = Size(*(sums[name][0] for name in ("customers", "products", "orders")))
    return "" if size_now == goal else f"the existing one has another size, {size_now}"


def fill_stock(engine: str, at: Listening, secret: str, size: str, seed: int) -> None:
    """Fill the database that shops are copied from, and check that all of it arrived."""
    speaks = engine_of(engine)
    before, after = script(engine)
    speaks.make(at, secret, TEMPLATE)
    with closing(speaks(at, secret, TEMPLATE)) as stock:
        stock.query(before)
        sums_sent = {table.name: stock.fill(table) for table in tables(Size.of(size), seed)}
        sums = counts(stock)
        if wrong := [name for name in sums_sent if sums[name] != sums_sent[name]]:
            name = wrong[0]
            raise LabkitError(
                f"{name}: {sums_sent[name]} rows and sum were sent, {sums[name]} arrived"
            )
        stock.query(after)
        rows = ", ".join(
            f"('{name}', {count}, {total})" for name, (count, total) in sums_sent.items()
        )
        stock.query(f"INSERT INTO loaded VALUES {rows}")
        stock.query(f"INSERT INTO loaded VALUES ('whole', {FORM}, {seed})")


def counts(shop: Database) -> dict[str, tuple[int, int]]:
    """Rows and sum of each table."""
    return {
        name: (rows[0], rows[1])
        for name, (_, column) in COLUMNS.items()
        for rows in [numbers(shop, f"SELECT count(*), coalesce(sum({column}), 0) FROM {name}")]
    }


def numbers(shop: Database, words: str) -> list[int]:
    """The whole numbers of the one row that answers."""
    (row,) = shop.query(words)
    return [int(content or 0) for content in row]


def loaded(shop: Database) -> dict[str, tuple[int, int]]:
    """Rows and sum of each table as it was filled, and with `whole` the form and seed of all."""
    rows = shop.query("SELECT what, many, total FROM loaded")
    return {
        (name or b"").decode(): (int(count or 0), int(total or 0)) for name, count, total in rows
    }
