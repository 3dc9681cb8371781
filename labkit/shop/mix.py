"""The actions of one customer: log in or register, browse, and buy; the mix is the DVD Store's.

Nothing of its code is here, and orders a minute of this shop are not comparable with its own.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field

from labkit.errors import BadInput
from labkit.shop.answers import ShopRows
from labkit.shop.stock import Size, actor, basket, customer, tax, title_word

PROGRAMS = ("login",)

Ask = tuple[str, tuple[object, ...]]
Order = Generator[Ask, ShopRows, int]


@dataclass(frozen=True)
class Mix:
    """Means and shares; the defaults are those of the documented driver."""

    new: float = 20.0
    """Per cent of the orders that a new customer makes."""
    searches: int = 3
    batch: int = 5
    items: int = 5
    think: float = 0.0
    """Seconds between two orders of a customer, on average."""

    def __post_init__(self) -> None:
        if not 0 <= self.new <= 100:
            raise BadInput(f"new customers must be 0 to 100 %, not {self.new!r}")
        for name in ("searches", "batch", "items"):
            if not 1 <= getattr(self, name) <= 1_000:
                raise BadInput(f"{name} must be 1 to 1000 on average, not {getattr(self, name)!r}")
        if not 0 <= self.think < 3_600:
            raise BadInput(f"think time must be 0 to 3600 s, not {self.think!r}")


@dataclass
class Customers:
    """All who buy at one shop: what they draw, and what they did so far."""

    mix: Mix
    size: Size
    draw: random.Random
    pages: bool = False
    """Whether they come by the web, whose page for a purchase looks up the prices itself."""
    done: Counter[str] = field(default_factory=Counter)

    def order(self, ref: int) -> Order:
        """One order, step by step: yields what is asked; the number of the order is returned."""
        buyer = yield from self._customer()
        for _ in range(self._about(self.mix.searches)):
            rows = yield self._search()
            self.done["browsed"] += 1
            self.done["found"] += len(rows)
        products = basket(self.draw, self.size.products, self.mix.items)
        ids = list(products)
        if self.pages:
            rows = yield "buy", (buyer, ref, ids, [*products.values()])
            return int(rows[0][0] or 0)
        prices = yield "prices", (ids,)
        net = sum(int(cost or 0) * products[int(content or 0)] for content, cost in prices)
        sums = (net, tax(net), net + tax(net))
        rows = yield "purchase", (buyer, *sums, ref, ids, [*products.values()])
        return int(rows[0][0] or 0)

    def _customer(self) -> Generator[Ask, ShopRows, int]:
        if self.draw.random() * 100 >= self.mix.new:
            name = f"user{1 + int(self.draw.random() * self.size.customers)}"
            rows = yield "login", (name, "password")
            self.done["logged in"] += 1
            return int(rows[0][0] or 0)
        while True:
            name = f"newuser{1 + int(self.draw.random() * self.size.customers)}"
            rows = yield "new", customer(self.draw, name)
            if rows:
                self.done["new"] += 1
                return int(rows[0][0] or 0)
            self.done["name taken"] += 1

    # Uniform, from 1 on.
    def _about(self, mean: int) -> int:
        return 1 + int(self.draw.random() * (2 * mean - 1))

    def _search(self) -> Ask:
        kind, limit = int(self.draw.random() * 3), self._about(self.mix.batch)
        if kind == 0:
            return "category", (1 + int(self.draw.random() * 16), limit)
        if kind == 1:
            return "actor", (actor(self.draw, self.size.products), limit)
        return "title", (title_word(self.draw, self.size.products), limit)
