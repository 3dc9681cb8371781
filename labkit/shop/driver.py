"""The driver: many customers in one loop, each of whom waits for an answer before asking again."""

from __future__ import annotations

import random
import selectors
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from labkit.errors import BadInput, LabkitError
from labkit.shop.answers import Asked, Refused, ShopRows, Short
from labkit.shop.ledger import Ledger
from labkit.shop.mix import Customers, Order
from labkit.shop.tally import HasEnded, Seconds, Write

TRIES = 100
"""Retries allowed for a transaction that another one got in the way of."""
AT_ONCE, LONGER_SECONDS = 3, 0.002
"""Retries without a pause, and the approximate growth of each pause after that."""
PAUSE_SECONDS = 0.2
LARGEST_PART = 1 << 14
"""Bytes that are read at once: Python makes room for all of them, which takes long for many."""
GOING = "57P"
"""Prefix of the error codes of a PostgreSQL that shuts down or has not started up yet."""


@dataclass(frozen=True)
class Pace:
    """The number of customers, how long they buy, and when the next order is due."""

    users: int = 1
    seconds: int = 60
    warm_up: float = 60.0
    ramp: float = 10.0
    """New customers a second, until all are there."""
    rate: float = 0.0
    """Orders a second that are due whether or not the ones before are done; 0: a closed loop."""
    patience: float = 0.0
    """Seconds to wait for a database that went away in the middle; 0: give up at once."""

    def __post_init__(self) -> None:
        if not 1 <= self.users <= 1_000:
            raise BadInput(f"users must be 1 to 1000, not {self.users!r}")
        if not 1 <= self.seconds <= 86_400:
            raise BadInput(f"it must last 1 to 86400 whole seconds, not {self.seconds!r}")
        for name in ("warm_up", "rate", "patience"):
            if not 0 <= getattr(self, name) <= 86_400:
                raise BadInput(f"{name} must be 0 to 86400, not {getattr(self, name)!r}")
        if not 0 < self.ramp <= 100_000:
            raise BadInput(f"ramp must be above 0 customers a second, not {self.ramp!r}")


class User:
    """One customer after another, on one connection."""

    def __init__(self, driver: Driver, database: Asked) -> None:
        self.driver, self.database, self.socket = driver, database, database.socket
        self.order: Order | None = None
        self.ref = 0
        self.begun = 0.0
        self.buying = False
        self.tries = 0
        self.sent = self.said = b""

    def begin(self, due: float) -> None:
        """Start an order that was due then."""
        self.begun, self.ref = due, self.driver.ledger.next()
        self.order = self.driver.customers.order(self.ref)
        self._ask(next(self.order))

    def arrived(self) -> None:
        """Read what came; go on with the order when the answer is whole."""
        part = self.socket.recv(LARGEST_PART)
        if not part:
            raise ConnectionError("the database closed the connection during an order")
        content = self.said + part if self.said else part
        if not self.database.complete(content):
            self.said = content
            return
        self.said = b""
        try:
            rows = self.database.answer(content)
        except Short:
            self._end(0)
        except Refused as error:
            self._retry(error)
        else:
            self._go_on(rows)

    def _go_on(self, rows: ShopRows) -> None:
        assert self.order is not None
        try:
            request = self.order.send(rows)
        except StopIteration as end:
            self._end(int(end.value))
        else:
            self._ask(request)

    def _ask(self, request: tuple[str, tuple[object, ...]]) -> None:
        name, values = request
        self.buying, self.tries = name == "purchase", 0
        self.sent = self.database.message(name, values)
        self.socket.sendall(self.sent)

    def _retry(self, error: Refused) -> None:
        if not error.again or self.tries >= TRIES:
            raise error
        self.tries += 1
        self.driver.seconds.retries += 1
        self.driver.again(self)

    def repeat(self) -> None:
        """Ask once more what was refused."""
        self.socket.sendall(self.sent)

    def _end(self, number: int) -> None:
        self.order, self.buying = None, False
        self.driver.ended(self, number)


class Driver:
    """The loop; `connect` opens one more connection that can be asked."""

    def __init__(
        self, connect: Callable[[], Asked], customers: Customers, pace: Pace, ledger: Ledger,
        write: Write, has_ended: HasEnded,
    ) -> None:  # fmt: skip
        self.connect, self.customers, self.pace = connect, customers, pace
        self.ledger, self.write = ledger, write
        self.lost = 0
        self.select = selectors.DefaultSelector()
        self.users: list[User] = []
        self.idle: deque[User] = deque()
        self.due: deque[float] = deque()
        self.later: list[tuple[float, User]] = []
        """Users who go on at a moment: with an order that was refused, or after thinking."""
        self.begun = self.next_due = time.monotonic()
        self.seconds = Seconds(self.begun, pace.warm_up, pace.seconds, write, has_ended)

    def run(self) -> None:
        """Warm up, then measure; a line for every second."""
        seconds = self.seconds
        while not seconds.over:
            moment = time.monotonic()
            seconds.reach(moment)
            self._ramp(moment)
            self._wake(moment)
            self._dispatch(moment)
            self._turn(max(0.0, min(seconds.edge, self._next(moment)) - moment))
        self._drain(time.monotonic() + 30)

    def ended(self, user: User, number: int) -> None:
        """One order is done: committed under this number, or 0 when stock was short."""
        moment = time.monotonic()
        self.ledger.note(user.ref, number)
        self.seconds.add(moment, moment - user.begun, not number)
        think = self.customers.mix.think
        if think:
            self.later.append((moment + self.customers.draw.random() * 2 * think, user))
        else:
            self.idle.append(user)

    def again(self, user: User) -> None:
        """Have it asked again: at once, and later at a random moment, so that two part ways."""
        if user.tries <= AT_ONCE:
            return user.repeat()
        longest = (user.tries - AT_ONCE) * LONGER_SECONDS
        self.later.append((time.monotonic() + random.uniform(0, longest), user))

    def _wake(self, moment: float) -> None:
        ready = [user for time_due, user in self.later if time_due <= moment]
        self.later = [wait for wait in self.later if wait[0] > moment]
        for user in ready:
            if not user.order:
                self.idle.append(user)
                continue
            try:
                user.repeat()
            except OSError as error:
                self._drop(user, error)

    def _ramp(self, moment: float) -> None:
        goal = min(self.pace.users, 1 + int((moment - self.begun) * self.pace.ramp))
        while len(self.users) < goal:
            try:
                self._connect()
            except (OSError, Refused) as error:
                if not gone(error):
                    raise
                self._connect_again(error)

    def _connect(self) -> None:
        user = User(self, self.connect())
        self.select.register(user.socket, selectors.EVENT_READ, user)
        self.users.append(user)
        self.idle.append(user)

    # In an open loop an order is due at its time, whoever is free to make it.
    def _dispatch(self, moment: float) -> None:
        if not self.pace.rate:
            for _ in range(len(self.idle)):
                self._start(self.idle.popleft(), moment)
            return
        while self.next_due <= moment:
            self.due.append(self.next_due)
            self.next_due += self.customers.draw.expovariate(self.pace.rate)
        while self.due and self.idle:
            self._start(self.idle.popleft(), self.due.popleft())

    def _start(self, user: User, due: float) -> None:
        try:
            user.begin(due)
        except OSError as error:
            self._drop(user, error)

    def _next(self, moment: float) -> float:
        times = [time_due for time_due, _ in self.later]
        if self.pace.rate:
            times.append(self.next_due)
        if len(self.users) < self.pace.users:
            times.append(self.begun + len(self.users) / self.pace.ramp)
        return min(times, default=moment + 1)

    def _turn(self, seconds: float) -> None:
        for key, _ in self.select.select(seconds):
            user: User = key.data
            try:
                user.arrived()
            except (OSError, Refused) as error:
                if not gone(error):
                    raise LabkitError("the database refused a step of an order",
                                      said=str(error)) from error  # fmt: skip
                self._drop(user, error)
            if self.idle and not self.pace.rate:
                self._dispatch(time.monotonic())

    # Whether a purchase that was under way is there is for the database to say, at the end.
    def _drop(self, user: User, error: Exception) -> None:
        self.lost += 1
        self.select.unregister(user.socket)
        user.database.close()
        if user.buying:
            self.ledger.unknown.append(user.ref)
        self.users.remove(user)
        self.later = [wait for wait in self.later if wait[1] is not user]
        self._connect_again(error)

    def _connect_again(self, error: Exception) -> None:
        if not self.pace.patience:
            raise LabkitError(
                "the database closed the connection during the run", said=str(error),
                hint="see its log for the reason; --patience waits for it to come back",
            ) from error  # fmt: skip
        self.write(f"lost {time.time():.3f} {error}")
        until = time.monotonic() + self.pace.patience
        while True:
            try:
                return self._connect()
            except (OSError, Refused) as last_error:
                if time.monotonic() > until:
                    raise LabkitError(
                        f"the database did not come back within {self.pace.patience:g} s",
                        said=str(last_error),
                    ) from error
                self.seconds.reach(time.monotonic())
                time.sleep(PAUSE_SECONDS)

    # What was under way when time was up is finished, and not counted in any second.
    def _drain(self, until: float) -> None:
        self.idle.clear()
        self.later = [wait for wait in self.later if wait[1].order]
        while any(user.order for user in self.users) and time.monotonic() < until:
            self._wake(time.monotonic())
            for key, _ in self.select.select(0.1 if not self.later else LONGER_SECONDS):
                try:
                    key.data.arrived()
                except (OSError, Refused):
                    self.select.unregister(key.fileobj)
                    key.data.order = None
                    if key.data.buying:
                        self.ledger.unknown.append(key.data.ref)
        self.ledger.unknown += [user.ref for user in self.users if user.order and user.buying]
        for user in self.users:
            user.database.close()


def gone(error: Exception) -> bool:
    """Whether the connection is lost: it broke, or the database is shutting down or starting up."""
    return not isinstance(error, Refused) or error.code.startswith(GOING)
