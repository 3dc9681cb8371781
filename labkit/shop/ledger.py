"""Orders that the driver saw committed, and whether the database still has each of them once."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from labkit.shop.filling import Counts, numbers
from labkit.shop.postgres import Postgres

EMPTY = """SELECT count(*) FROM orders o WHERE orderid > {}
    AND NOT EXISTS (SELECT 1 FROM orderlines l WHERE l.orderid = o.orderid)"""
STRAY = """SELECT count(*) FROM orderlines l WHERE orderid > {}
    AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.orderid = l.orderid)"""
HISTORY = "SELECT count(*) FROM cust_hist WHERE orderid > {}"
ADDITIONS = "SELECT coalesce(sum(added), 0) FROM reorder"
APART = 1_000_000
"""A driver that goes on with an earlier one's ledger numbers its orders from the next million."""


@dataclass
class Ledger:
    """The marks of all orders that were seen to be committed; kept in a file if so asked.

    A line is written before the next order begins, so that it outlives a driver that is killed.
    """

    seen: array[int] = field(default_factory=lambda: array("q"))
    unknown: list[int] = field(default_factory=list)
    """Marks of orders whose connection broke before the answer came."""
    begun: int = 0
    ended: int = 0
    file: int = -1

    @classmethod
    def kept(cls, path: Path) -> Ledger:
        """The ledger of a file, with what an earlier driver wrote; a half line is no order."""
        ledger = cls(file=os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600))
        content = path.read_bytes().rpartition(b"\n")[0]
        ledger.seen.extend(int(line) for line in content.split())
        os.ftruncate(ledger.file, len(content) + 1 if content else 0)
        ledger.begun = (max(ledger.seen, default=0) // APART + 1) * APART
        return ledger

    def next(self) -> int:
        """The mark of one more order."""
        self.begun += 1
        return self.begun

    def note(self, mark: int, number: int) -> None:
        """The order of this mark was committed under a number, or, with 0, undone."""
        self.ended += 1
        if number:
            self.seen.append(mark)
            if self.file >= 0:
                os.write(self.file, b"%d\n" % mark)


@dataclass(frozen=True)
class Checked:
    """The findings of a check of the whole shop after a run."""

    orders: int
    lines: int
    sold: int
    seen: int
    unseen: int
    """Committed, but the answer never came: the driver was killed, or its connection broke."""
    lost: int
    """Seen to be committed, and not there any more."""
    twice: int
    wrong: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is lost, nothing is there twice, and all sums agree."""
        return not self.wrong


def checked(shop: Postgres, before: Counts, ledger: Ledger) -> Checked:
    """Compare orders, lines and stock with one another, and with what the driver saw."""
    first = before["orders"][0]
    marks = Counter(int(row[0] or 0) for row in
                    shop.query(f"SELECT ref FROM orders WHERE orderid > {first}"))  # fmt: skip
    (lines, quantity) = numbers(shop, f"SELECT count(*), coalesce(sum(quantity), 0) "
                                     f"FROM orderlines WHERE orderid > {first}")  # fmt: skip
    (stock, sales) = numbers(shop, "SELECT sum(stock), sum(sold) FROM inventory")
    additions, empty, stray, history = (
        numbers(shop, words.format(first))[0] for words in (ADDITIONS, EMPTY, STRAY, HISTORY)
    )
    marks_seen = Counter(ledger.seen)
    losses = len(marks_seen.keys() - marks.keys())
    twice = sum(count - 1 for each in (marks, marks_seen) for count in each.values())
    conditions = {
        f"{losses} orders that were committed are gone": not losses,
        f"{twice} orders were counted twice": not twice,
        f"{empty} orders have no lines": not empty,
        f"{stray} lines have no order": not stray,
        f"{quantity} were ordered, {sales} sold": quantity == sales,
        f"{lines} lines, {history} remembered by customers": lines == history,
        f"stock is {stock}, not {before['inventory'][1] + additions - sales}":
                  stock == before["inventory"][1] + additions - sales,
    }  # fmt: skip
    wrong = tuple(condition for condition, holds in conditions.items() if not holds)
    strangers = len(marks.keys() - marks_seen.keys())
    return Checked(
        sum(marks.values()), lines, sales, len(marks_seen), strangers, losses, twice, wrong
    )
