"""Fill a shop, have customers buy there, and check it afterwards; see `--help`."""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from labkit.errors import BadInput, LabkitError
from labkit.shop.answers import Asked, Listening, Refused
from labkit.shop.driver import PAUSE_SECONDS, Driver, Pace, gone
from labkit.shop.filling import (
    DATABASE,
    TEMPLATE,
    Counts,
    awaited,
    counts,
    fresh,
)
from labkit.shop.ledger import Checked, Ledger, checked
from labkit.shop.mix import Customers, Mix
from labkit.shop.postgres import Postgres
from labkit.shop.several import several
from labkit.shop.stock import Size
from labkit.shop.tally import never
from labkit.shop.web import Web, serve

FORMAT = 1
LOCAL = "127.0.0.1:5432"


def main() -> int:
    """Do what the command line says; an error is up to three lines."""
    try:
        args = _words().parse_args()
        count = len(args.at or [LOCAL])
        if count > 1:
            return several(count, lambda number, start: _do(args, number, start))
        _do(args, 0, lambda: None)
    except (LabkitError, Refused, ConnectionError) as error:
        print(_describe(error), file=sys.stderr, flush=True)
        return 2 if isinstance(error, BadInput) else 1
    return 0


def _describe(error: Exception) -> str:
    if isinstance(error, Refused) and error.code in ("28P01", "28000"):
        return str(LabkitError("the database refused the login", said=str(error),
                               hint="check the user and the password"))  # fmt: skip
    if isinstance(error, Refused):
        return str(LabkitError("the database refused", said=str(error)))
    if isinstance(error, OSError) and error.errno:
        return str(LabkitError("the connection to the database broke", said=str(error)))
    return str(error)


def _words() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(prog="shop", description=__doc__)
    words.add_argument("verb", choices=("fill", "drive", "check", "serve"))
    words.add_argument("--at", action="append", help="USER@HOST:PORT; of several shops, each")
    words.add_argument("--secret", action="append", type=Path, help="its password, in a file")
    words.add_argument("--pages", action="append", help="HOST:PORT of the shop's web pages")
    words.add_argument("--size", default="10MB")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--ledger", type=Path, help="keep what was committed in this file")
    words.add_argument("--until", type=Path, help="end once this file is there, or time is up")
    words.add_argument("--go-on", action="store_true", help="with the shop as it is")
    for settings in (Mix, Pace):
        for slot in fields(settings):
            kind = int if slot.type == "int" else float
            words.add_argument(f"--{slot.name.replace('_', '-')}", type=kind, default=slot.default)
    return words


def _secret(args: argparse.Namespace, at: int) -> str:
    files = args.secret or []
    try:
        return str(files[at].read_text("utf-8")).strip() if at < len(files) else ""
    except OSError as unread:
        raise BadInput(f"cannot read the password: {unread}") from None


def _do(args: argparse.Namespace, number: int, start: Callable[[], None]) -> None:
    shop, size = _Shop.of(args, number), Size.of(args.size)
    mix = Mix(**{slot.name: getattr(args, slot.name) for slot in fields(Mix)})
    pace = Pace(**{slot.name: getattr(args, slot.name) for slot in fields(Pace)})
    if args.verb == "serve":
        return serve(shop.served, [shop.prepared() for _ in range(pace.users)])
    awaited(shop.at, shop.secret)
    before = _before(args, shop)
    with closing(Postgres(shop.at, shop.secret, DATABASE)) as database:
        (row,) = database.query("SELECT version()")
    _tell((row[0] or b"").decode("utf-8", "replace"))
    if args.verb == "fill":
        return
    ledger = Ledger.kept(args.ledger) if args.ledger else Ledger()
    driver = None
    if args.verb == "drive":
        draw = random.Random(f"{args.seed}/{ledger.begun}/driver")
        customers = Customers(mix, size, draw, bool(shop.pages))
        has_ended = args.until.exists if args.until else never
        driver = Driver(shop.connected, customers, pace, ledger, _say, has_ended)
        _say(f"shop {FORMAT} {json.dumps({**asdict(mix), **asdict(pace)})}")
        start()
        cpu_start = _used()
        driver.run()
        _report(driver, customers, _used() - cpu_start)
    check = _look(shop, before, ledger, pace.patience)
    _say(f"checked {json.dumps({**asdict(check), 'unknown': len(ledger.unknown)})}")
    if not check.ok:
        raise LabkitError(f"the shop is not consistent after the run: {'; '.join(check.wrong)}")


# A look that is cut short begins again: it changes nothing.
def _look(shop: _Shop, before: Counts, ledger: Ledger, patience: float) -> Checked:
    until = time.monotonic() + patience
    while True:
        try:
            with closing(Postgres(shop.at, shop.secret, DATABASE)) as database:
                return checked(database, before, ledger)
        except (OSError, Refused) as error:
            if not gone(error) or time.monotonic() > until:
                raise
            time.sleep(PAUSE_SECONDS)


@dataclass(frozen=True)
class _Shop:
    """Where one of the shops is, and how it is asked."""

    at: Listening
    secret: str
    pages: str

    @classmethod
    def of(cls, args: argparse.Namespace, number: int) -> _Shop:
        at = Listening.of((args.at or [LOCAL])[number])
        pages = args.pages[number] if args.pages and number < len(args.pages) else ""
        return cls(at, _secret(args, number), pages)

    @property
    def served(self) -> Listening:
        return Listening.of(self.pages or "127.0.0.1:8080")

    def connected(self) -> Asked:
        return Web(self.served) if self.pages else self.prepared()

    def prepared(self) -> Postgres:
        database = Postgres(self.at, self.secret, DATABASE)
        database.prepare()
        return database


def _before(args: argparse.Namespace, shop: _Shop) -> Counts:
    if not args.go_on:
        return fresh(shop.at, shop.secret, args.size, args.seed, _tell)
    with closing(Postgres(shop.at, shop.secret, TEMPLATE)) as stock:
        return counts(stock)


def _report(driver: Driver, customers: Customers, used: float) -> None:
    for value, count in sorted(driver.seconds.all.times.items()):
        _say(f"h {value} {count}")
    tally = driver.seconds.all
    _say("end " + json.dumps({
        "orders": tally.orders, "short": tally.short, "lost": driver.lost,
        "retries": driver.seconds.retries, "cpu": round(used, 3), "ended": driver.ledger.ended,
        "seconds": round(time.monotonic() - driver.begun, 3), **customers.done,
    }))  # fmt: skip


def _tell(line: str) -> None:
    _say(f"# {line}")


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
