"""Users of tiles: at a shop that is busy in bursts, at a mail server, and at a social application.

Each waits for an answer, thinks, and asks again. Of a shop's three customers the first is there all
the time. The other two come through web servers of their own, each for a quarter of the time.
"""

from __future__ import annotations

import imaplib
import random
import smtplib
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from threading import Barrier, BrokenBarrierError, Lock
from typing import Any

from labkit.errors import LabkitError
from labkit.shop.answers import Listening, Refused, ShopRows, Short
from labkit.shop.ledger import APART, Ledger
from labkit.shop.mix import Customers, Mix
from labkit.shop.stock import Size
from labkit.shop.web import Web
from labkit.tile.social import MEMBERS, SocialWeb

SHOP, MAIL, SOCIAL = "DVD Store 2", "Mail Server", "Olio"
"""The loads, by the names that the document prints."""
PRESENT: Mapping[str, tuple[tuple[float, float], ...]] = {
    SHOP: ((0, 1), (0.25, 0.5), (0.5, 0.75)), MAIL: ((0, 1),), SOCIAL: ((0, 1), (0, 1)),
}  # fmt: skip
"""Parts of the measured time in which each user of a tile is there."""
SIZE = "10MB"
LETTER_LINES, MOST_TRIES = 100, 20
READY_SECONDS = 60.0
"""The time that all users together have until each was served once."""
LINE = "".join(map(chr, range(48, 122)))
POSTED = 4
"""Visits of a member, on average, until one is to post."""
SERVERS_FAULTS = (OSError, Refused, smtplib.SMTPException, imaplib.IMAP4.error, LabkitError)
Act = Callable[[], object]
"""An action between two pauses of a user."""


@dataclass
class Places:
    """The addresses of all servers, and the orders that were seen to be committed."""

    shops: list[str]
    social: str
    mail: tuple[str, int, int]
    word: str
    stretch: int
    ledger: Ledger = field(default_factory=Ledger)
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.ledger.begun = APART * self.stretch

    @contextmanager
    def user(self, load: str, tile: int, nth: int) -> Iterator[Act]:
        """A connected user."""
        draw = random.Random(f"{self.stretch} {load} {tile} {nth}")
        with ExitStack() as connected:
            if load == MAIL:
                yield self._mail(tile, connected)
            elif load == SOCIAL:
                web: Web = connected.enter_context(closing(SocialWeb(Listening.of(self.social))))
                yield lambda: _visit(web, draw)
            else:
                web = connected.enter_context(closing(Web(Listening.of(self.shops[nth]))))
                customers = Customers(Mix(), Size.of(SIZE), draw, pages=True)
                yield lambda: self._order(web, customers)

    def _order(self, web: Web, customers: Customers) -> None:
        with self.lock:
            mark = self.ledger.next()
        steps, number = customers.order(mark), 0
        try:
            asked = next(steps)
            while True:
                asked = steps.send(_again(web, *asked))
        except StopIteration as done:
            number = int(done.value)
        except Short:
            pass
        with self.lock:
            self.ledger.note(mark, number)

    # A letter to the tile's own mailbox and a look at the newest there, in turn.
    def _mail(self, tile: int, connected: ExitStack) -> Act:
        host, port, pages = self.mail
        smtp = connected.enter_context(smtplib.SMTP(host, port, "labkit"))
        imap = imaplib.IMAP4(host, pages)
        connected.callback(imap.shutdown)
        imap.login(f"tile{tile + 1}", self.word)
        letter = f"Subject: tile\r\n\r\n{(LINE + chr(10)) * LETTER_LINES}"
        at, state = f"tile{tile + 1}@tile.test", {"read": True}

        def act() -> None:
            state["read"] = not state["read"]
            if not state["read"]:
                smtp.sendmail(at, [at], letter)
            elif int(imap.select()[1][0] or 0):
                imap.fetch("*", "(RFC822)")

        return act


# A deadlock is for the one who caused it to try again.
def _again(web: Web, name: str, given: tuple[object, ...]) -> ShopRows:
    for _ in range(MOST_TRIES):
        try:
            return web.ask(name, given)
        except Refused as refused:
            if not refused.again:
                raise
    raise LabkitError(f"the shop refused {name} {MOST_TRIES} times")


def _visit(web: Web, draw: random.Random) -> None:
    member = 1 + int(draw.random() * MEMBERS)
    if draw.random() * POSTED < 1:
        web.ask("post", (member, LINE * 4))
    else:
        web.ask("timeline", (member,))


def _unserved(load: str, wrong: BaseException) -> LabkitError:
    said = f"{load}: {type(wrong).__name__}: {wrong}"
    return LabkitError("a user of a tile was not served", said=said)


@dataclass(frozen=True)
class Stretch:
    """A number of tiles under load, and how long."""

    tiles: int
    seconds: float
    warm_up: float
    think: float

    @property
    def nominal(self) -> dict[str, float]:
        """Requests a second of a tile's users if they never waited for an answer."""
        return {
            load: sum(end - begin for begin, end in present) / self.think
            for load, present in PRESENT.items()
        }

    def run(self, places: Places) -> tuple[dict[str, list[list[float]]], float]:
        """The ms that each answer took, by load and tile; and the measured seconds.

        The time begins when each user was served once: a server starts processes for new ones. It
        ends with the last answers, on average: who waits for long would not be seen otherwise.
        """
        took = {load: [list[float]() for _ in range(self.tiles)] for load in PRESENT}
        users = [(load, tile, nth) for load, present in PRESENT.items()
                 for tile in range(self.tiles) for nth in range(len(present))]  # fmt: skip
        clock: list[float] = []
        ready = Barrier(len(users), lambda: clock.append(time.monotonic() + self.warm_up))

        def use(load: str, tile: int, nth: int) -> float:
            try:
                with places.user(load, tile, nth) as act:
                    act()
                    ready.wait(READY_SECONDS)
                    draw = random.Random(f"{places.stretch} {load} {tile} {nth} pauses")
                    note = took[load][tile].append
                    return self._go_on(act, PRESENT[load][nth], clock[0], draw, note)
            except BaseException as wrong:
                ready.abort()
                if isinstance(wrong, SERVERS_FAULTS):
                    raise _unserved(load, wrong) from wrong
                raise

        with ThreadPoolExecutor(len(users)) as pool:
            ends = [pool.submit(use, *user) for user in users]
        faults = [fault for end in ends if (fault := end.exception())]
        if faults:  # those who only waited for the others come last
            first = min(faults, key=lambda fault: isinstance(fault, BrokenBarrierError))
            raise _unserved("all", first) if isinstance(first, BrokenBarrierError) else first
        return took, self.seconds + sum(end.result() for end in ends) / len(ends)

    # Seconds that the last answer came too late.
    def _go_on(
        self, act: Act, present: tuple[float, float], begun: float, draw: random.Random,
        note: Callable[[float], Any],
    ) -> float:  # fmt: skip
        leaves = begun + present[1] * self.seconds
        comes = begun + present[0] * self.seconds if present[0] else begun - self.warm_up
        time.sleep(max(0, comes - time.monotonic()) + draw.random() * self.think)
        answered = leaves
        while (asked := time.monotonic()) < leaves:
            act()
            if begun <= (answered := time.monotonic()):
                note(round(1000 * (answered - asked), 2))
            time.sleep(self.think * (0.5 + draw.random()))
        return max(0, answered - leaves)
