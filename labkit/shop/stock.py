"""The rows that a shop begins with: any size from 10 MB, the same for the same seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from labkit.errors import BadInput

Row = tuple[object, ...]
SIZE = re.compile(r"([1-9]\d{0,6}) ?(MB|GB)", re.ASCII)
MONTHS = 12
CATEGORIES = 16
MOST_STOCK = 500
MOST_QUANTITY = 3
FIRST_DAY = 1_230_768_000
"""The first of January 2009: dates are whole seconds since 1970, as the database counts them."""
CUSTOMER = (
    "username", "password", "firstname", "lastname", "address", "city", "country", "email",
    "phone", "creditcard", "age", "income",
)  # fmt: skip
SYLLABLES = (
    "ba", "ce", "di", "fo", "gu", "la", "me", "ni", "po", "ru",
    "sa", "te", "vi", "zo", "ka", "lem", "mor", "nis", "pal", "ros",
)  # fmt: skip


@dataclass(frozen=True)
class Size:
    """The number of rows of each kind that a shop begins with."""

    customers: int
    products: int
    orders: int

    @classmethod
    def of(cls, text: str) -> Size:
        """From a text such as 10MB: linear from 10 MB, exactly 1GB, and linear from 100 GB."""
        read = SIZE.fullmatch(text.strip().upper())
        if not read or (read[2] == "MB" and int(read[1]) < 10):
            raise BadInput(
                f"{text!r} is not a size of a shop", hint="such as 10MB, 500MB, 1GB, 20GB"
            )
        number, unit = int(read[1]), read[2]
        if unit == "MB":
            return cls(number * 2_000, number * 1_000, number * 100 * MONTHS)
        if number == 1:
            return cls(2_000_000, 100_000, 100_000 * MONTHS)
        return cls(number * 2_000_000, number * 10_000, number * 100_000 * MONTHS)


def word(number: int, syllables: int) -> str:
    """The word of a number: an invented one, for nothing here is a real name."""
    syllables_drawn = []
    for _ in range(syllables):
        number, at = divmod(number, len(SYLLABLES))
        syllables_drawn.append(SYLLABLES[at])
    return "".join(syllables_drawn).upper()


def title_words(products: int) -> int:
    """The number of words that titles are made of; each is in about twenty titles."""
    return max(100, min(8_000, products // 10))


def names(products: int) -> int:
    """The number of first and of last names of actors; each actor has about three products."""
    return max(20, min(400, int((products / 3) ** 0.5)))


def actor(draw: random.Random, products: int) -> str:
    """The name of an actor."""
    number = names(products)
    return f"{word(int(draw.random() * number), 2)} {word(int(draw.random() * number), 3)}"


def title_word(draw: random.Random, products: int) -> str:
    """A word that stands in titles."""
    return word(int(draw.random() * title_words(products)), 3)


def product(draw: random.Random, products: int) -> int:
    """A product as customers choose it: each alike, but every ten thousandth ten times as often."""
    number = int(draw.random() * (products + 9 * (products // 10_000))) + 1
    return number if number <= products else 10_000 * ((number - products - 1) // 9 + 1)


def tax(net: int) -> int:
    """8.25 %, in cents."""
    return (net * 825 + 5_000) // 10_000


def price(product_number: int) -> int:
    """The price of a product, in cents."""
    return 999 + product_number * 7919 % 2_000


def basket(draw: random.Random, products: int, items: int) -> dict[int, int]:
    """The products of an order: 1 to `2 * items - 1`, at most 10, and 1 to 3 of each."""
    count = min(10, 1 + int(draw.random() * (2 * items - 1)))
    quantities = {
        product(draw, products): 1 + int(draw.random() * MOST_QUANTITY) for _ in range(count)
    }
    return dict(sorted(quantities.items()))


def _categories(size: Size, draw: random.Random) -> Iterator[Row]:
    return ((number, word(number * 997, 3)) for number in range(1, CATEGORIES + 1))


def _products(size: Size, draw: random.Random) -> Iterator[Row]:
    count = size.products
    for number in range(1, count + 1):
        title = f"{title_word(draw, count)} {title_word(draw, count)}"
        special = int(draw.random() < 0.01)
        category = 1 + int(draw.random() * CATEGORIES)
        like = 1 + int(draw.random() * count)
        yield number, category, title, actor(draw, count), price(number), special, like


def _inventory(size: Size, draw: random.Random) -> Iterator[Row]:
    return ((number, int(draw.random() * MOST_STOCK), 0) for number in range(1, size.products + 1))


def _customers(size: Size, draw: random.Random) -> Iterator[Row]:
    for number in range(1, size.customers + 1):
        yield (number, *customer(draw, f"user{number}"))


def customer(draw: random.Random, name: str) -> Row:
    """All that is known of a customer, but the number."""
    first, last = word(int(draw.random() * 400), 2), word(int(draw.random() * 8_000), 3)
    street = f"{int(draw.random() * 9_999)} {word(int(draw.random() * 8_000), 4)} DRIVE"
    card = int(draw.random() * 10**16)
    phone = int(draw.random() * 10**10)
    age, income = 18 + int(draw.random() * 72), 20_000 * (1 + int(draw.random() * 5))
    city, country = word(int(draw.random() * 8_000), 3), word(int(draw.random() * 20), 2)
    mail = f"{last}@{first}.example"
    return (name, "password", first, last, street, city, country, mail,
            f"{phone:010d}", f"{card:016d}", age, income)  # fmt: skip


Past = tuple[list[Row], list[Row], list[Row]]


# Orders of a year, their lines and what customers remember of them: drawn alike for each table.
def _past(size: Size, seeds: random.Random) -> Iterator[Past]:
    draw, year = random.Random(seeds.randrange(1 << 30)), 365 * 86_400
    for number in range(1, size.orders + 1):
        buyer = 1 + int(draw.random() * size.customers)
        day = FIRST_DAY + year * (number - 1) // size.orders
        products = basket(draw, size.products, 5)
        net = sum(price(product_id) * quantity for product_id, quantity in products.items())
        tax_sum = tax(net)
        yield (
            [(number, day, buyer, net, tax_sum, net + tax_sum, 0)],
            [
                (number, at, product_id, quantity, day)
                for at, (product_id, quantity) in enumerate(products.items(), 1)
            ],
            [(buyer, number, product_id) for product_id in products],
        )


def _part(number: int) -> Callable[[Size, random.Random], Iterator[Row]]:
    return lambda size, seeds: (row for parts in _past(size, seeds) for row in parts[number])


@dataclass(frozen=True)
class StockTable:
    """The rows of one table, and the column whose sum shows that all of them arrived whole."""

    name: str
    summed: str
    columns: tuple[str, ...]
    draw: Callable[[Size, random.Random], Iterator[Row]]
    seed: str = ""
    """The word that sets its random numbers apart; without one, its name."""

    def rows(self, size: Size, seed: int) -> Iterator[Row]:
        """All that is in it before the first order."""
        return self.draw(size, random.Random(f"{seed}/{self.seed or self.name}"))

    def counted(
        self, size: Size, seed: int, take: Callable[[Sequence[Row]], None]
    ) -> tuple[int, int]:
        """Hand over all rows, a thousand at a time; returns how many there were, and their sum."""
        at, rows, count, total = self.columns.index(self.summed), [], 0, 0
        for row in self.rows(size, seed):
            rows.append(row)
            total += int(str(row[at]))
            if len(rows) == 1_000:
                take(rows)
                count, rows = count + len(rows), []
        if rows:
            take(rows)
        return count + len(rows), total


TABLES = (
    StockTable("categories", "category", ("category", "categoryname"), _categories),
    StockTable("products", "price",
               ("prod_id", "category", "title", "actor", "price", "special", "common_prod_id"),
               _products),
    StockTable("inventory", "stock", ("prod_id", "stock", "sold"), _inventory),
    StockTable("customers", "income", ("customerid", *CUSTOMER), _customers),
    StockTable("orders", "total",
               ("orderid", "orderdate", "customerid", "net", "tax", "total", "ref"),
               _part(0), "past"),
    StockTable("orderlines", "quantity", ("orderid", "line", "prod_id", "quantity", "orderdate"),
               _part(1), "past"),
    StockTable("cust_hist", "prod_id", ("customerid", "orderid", "prod_id"), _part(2), "past"),
)  # fmt: skip
"""All that is filled before the first order."""
