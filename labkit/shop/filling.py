"""A shop as it is before the first order: filled once, checked by counts and sums, then copied."""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress

from labkit.errors import LabkitError
from labkit.shop.answers import Listening, Refused
from labkit.shop.postgres import Postgres
from labkit.shop.stock import TABLES, Size

DATABASE, TEMPLATE = "labkit_shop", "labkit_stock"
FORM = 1
"""The version of the generator's rows and tables; what another one filled is filled again."""
STARTING, RECOVERY_SECONDS = "57P03", 120.0
Counts = Mapping[str, tuple[int, int]]
Tell = Callable[[str], None]


def awaited(at: Listening, secret: str) -> None:
    """Wait for one that listens already, but is still putting right what a crash has left."""
    until = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            return Postgres(at, secret).close()
        except Refused as error:
            if error.code != STARTING or time.monotonic() > until:
                raise
            time.sleep(0.1)


def fresh(at: Listening, secret: str, size: str, seed: int, tell: Tell) -> Counts:
    """Make the shop new from what was filled once; fill that first if it is not there whole."""
    counts_now: Counts = {}
    reason = _lacking(at, secret, size, seed)
    if not reason:
        counts_now, reason = _copy(at, secret)
    if reason:
        tell(f"filling {size} with seed {seed}: {reason}")
        fill_stock(at, secret, size, seed)
        counts_now, reason = _copy(at, secret)
    if reason:
        raise LabkitError(f"the copy of a shop that was just filled has lost rows: {reason}")
    return counts_now


# What the copy holds, and what it lacks of what was filled once.
def _copy(at: Listening, secret: str) -> tuple[Counts, str]:
    Postgres.make(at, secret, DATABASE, TEMPLATE)
    with closing(Postgres(at, secret, DATABASE)) as shop:
        sums, goal = counts(shop), loaded(shop)
    wrong = [
        f"{name} has {have}, not {goal.get(name)} rows and sum"
        for name, have in sums.items()
        if have != goal.get(name)
    ]
    return sums, f"the existing one is incomplete: {wrong[0]}" if wrong else ""


# Why it has to be filled; empty where it is there whole.
def _lacking(at: Listening, secret: str, size: str, seed: int) -> str:
    if not Postgres.exists(at, secret, TEMPLATE):
        return "there is none yet"
    with closing(Postgres(at, secret, TEMPLATE)) as stock:
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


def fill_stock(at: Listening, secret: str, size: str, seed: int) -> None:
    """Fill the database that shops are copied from, and check that all of it arrived."""
    words = (pkgutil.get_data("labkit.shop", "postgresql.sql") or b"").decode()
    before, _, after = words.partition("-- loaded\n")
    Postgres.make(at, secret, TEMPLATE)
    with closing(Postgres(at, secret, TEMPLATE)) as stock:
        stock.query(before)
        sums_sent = {table.name: stock.fill(table, Size.of(size), seed) for table in TABLES}
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


def counts(shop: Postgres) -> dict[str, tuple[int, int]]:
    """Rows and sum of each table."""
    words = "SELECT count(*), coalesce(sum({}), 0) FROM {}"
    rows = {one.name: numbers(shop, words.format(one.summed, one.name)) for one in TABLES}
    return {name: (count, total) for name, (count, total) in rows.items()}


def numbers(shop: Postgres, words: str) -> list[int]:
    """The whole numbers of the one row that answers."""
    (row,) = shop.query(words)
    return [int(content or 0) for content in row]


def loaded(shop: Postgres) -> dict[str, tuple[int, int]]:
    """Rows and sum of each table as it was filled, and with `whole` the form and seed of all."""
    rows = shop.query("SELECT what, many, total FROM loaded")
    return {
        (name or b"").decode(): (int(count or 0), int(total or 0)) for name, count, total in rows
    }
