"""Fill a shop, have customers buy there, and check it afterwards; see `--help`.

Of several shops each has a driver process of its own; all begin when all are filled.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from labkit.errors import BadInput, LabkitError
from labkit.shop.answers import Asked, Listening, Refused
from labkit.shop.driver import PAUSE_SECONDS, Driver, Pace, gone
from labkit.shop.filling import DATABASE, TEMPLATE, Counts, awaited, counts, fresh
from labkit.shop.ledger import Checked, Ledger, checked
from labkit.shop.mix import Customers, Mix
from labkit.shop.postgres import Postgres
from labkit.shop.stock import Size
from labkit.shop.web import Web, serve

FORMAT = 1
LOCAL = "127.0.0.1:5432"
Start = Callable[[], None]


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
    words.add_argument("verb", choices=("fill", "drive", "serve"))
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


def _do(args: argparse.Namespace, number: int, start: Start) -> None:
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
    draw = random.Random(f"{args.seed}/{ledger.begun}/driver")
    customers = Customers(mix, size, draw, bool(shop.pages))

    def has_ended() -> bool:
        return bool(args.until and args.until.exists())

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
    seconds = driver.seconds
    for value, count in sorted(seconds.times.items()):
        _say(f"h {value} {count}")
    _say("end " + json.dumps({
        "orders": seconds.orders, "short": seconds.short, "lost": driver.lost,
        "retries": seconds.retries, "cpu": round(used, 3), "ended": driver.ledger.ended,
        "seconds": round(time.monotonic() - driver.begun, 3), **customers.done,
    }))  # fmt: skip


def _tell(line: str) -> None:
    _say(f"# {line}")


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _say(line: str) -> None:
    print(line, flush=True)


class ShopOutput(io.TextIOBase):
    """Standard output, with the number of a shop before each line."""

    def __init__(self, number: int) -> None:
        self.number, self.tail = number, ""

    def write(self, text: str) -> int:
        """Print each whole line at once, so that no other shop's comes within it."""
        *lines, self.tail = (self.tail + text).split("\n")
        for line in lines:
            os.write(1, f"{self.number} {line}\n".encode())
        return len(text)


def several(number_of_shops: int, drive: Callable[[int, Start], None]) -> int:
    """Drive each; its lines come out behind its number. The worst code is that of all."""
    # Its reader is at the end once each shop is filled, or gone: who writes has let go of it then.
    reader, writer = os.pipe()
    children = [_begin(number, drive, reader, writer) for number in range(number_of_shops)]
    os.close(writer)
    return max(_code(number, child) for number, child in enumerate(children, 1))


# One that was killed has said nothing itself.
def _code(number: int, child: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code >= 0:
        return code
    name = signal.Signals(-code).name
    print(f"shop {number}: its customers were killed by {name}", file=sys.stderr, flush=True)
    return 1


def _begin(number: int, drive: Callable[[int, Start], None], reader: int, writer: int) -> int:
    if child := os.fork():
        return child
    sys.stdout = ShopOutput(number + 1)

    def start() -> None:
        print("ready", flush=True)
        os.close(writer)
        os.read(reader, 1)

    code = 1
    try:
        drive(number, start)
        code = 0
    except Exception as error:
        print(f"shop {number + 1}: {error}", file=sys.stderr, flush=True)
        if type(error).__module__ == "builtins":
            traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
