"""The driver: many customers in one loop, each of whom waits for an answer before asking again."""

from __future__ import annotations

import selectors
import socket
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from labkit.errors import BadInput, LabkitError
from labkit.shop.answers import Asked, Refused, Rowset, Short
from labkit.shop.ledger import Ledger
from labkit.shop.mix import Customers, Order

TRIES = 10
"""How often a transaction is tried that another one got in the way of."""
PAUSE_SECONDS = 0.2
LARGEST_PART = 1 << 18
Write = Callable[[str], None]


@dataclass(frozen=True)
class Pace:
    """How many customers there are, how long they buy, and when the next order is due."""

    users: int = 1
    seconds: float = 60.0
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
        if not 0 < self.seconds <= 86_400:
            raise BadInput(f"it must last more than 0 and up to 86400 s, not {self.seconds!r}")
        for name in ("warm_up", "rate", "patience"):
            if not 0 <= getattr(self, name) <= 86_400:
                raise BadInput(f"{name} must be 0 to 86400, not {getattr(self, name)!r}")
        if not 0 < self.ramp <= 100_000:
            raise BadInput(f"ramp must be above 0 customers a second, not {self.ramp!r}")


@dataclass
class Tally:
    """What was done in a second, or in all of the measured time."""

    orders: int = 0
    short: int = 0
    slowest: float = 0.0
    spent: float = 0.0
    times: Counter[int] = field(default_factory=Counter)

    def add(self, seconds: float, short: bool) -> None:
        """Count one order, and how long it took."""
        self.orders += 1
        self.short += short
        self.spent += seconds
        self.slowest = max(self.slowest, seconds)

    def line(self, when: float, retries: int) -> str:
        """The second that ended at `when`: orders, short ones, mean and slowest in us, retries."""
        mean = self.spent / self.orders if self.orders else 0.0
        return (f"s {when:.3f} {self.orders} {self.short} {mean * 1e6:.0f} "
                f"{self.slowest * 1e6:.0f} {retries}")  # fmt: skip


class User:
    """One customer after another, on one connection."""

    def __init__(self, driver: Driver, database: Asked, sock: socket.socket) -> None:
        self.driver, self.database, self.socket = driver, database, sock
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
            raise ConnectionError("the database hung up in the middle of an order")
        said = self.said + part if self.said else part
        if not self.database.complete(said):
            self.said = said
            return
        self.said = b""
        try:
            answer = self.database.answer(said)
        except Short:
            self._ended(0)
        except Refused as refused:
            self._again(refused)
        else:
            self._go_on(answer)

    def _go_on(self, answer: Rowset) -> None:
        assert self.order is not None
        try:
            asked = self.order.send(answer)
        except StopIteration as done:
            self._ended(int(done.value))
        else:
            self._ask(asked)

    def _ask(self, asked: tuple[str, tuple[object, ...]]) -> None:
        name, given = asked
        self.buying, self.tries = name == "purchase", 0
        self.sent = self.database.message(name, given)
        self.socket.sendall(self.sent)

    def _again(self, refused: Refused) -> None:
        if not refused.again or self.tries >= TRIES:
            raise refused
        self.tries += 1
        self.driver.retries += 1
        self.socket.sendall(self.sent)

    def _ended(self, number: int) -> None:
        self.order, self.buying = None, False
        self.driver.ended(self, number)


class Driver:
    """The loop; `connect` opens one more connection that can be asked."""

    def __init__(
        self, connect: Callable[[], Asked], customers: Customers, pace: Pace, ledger: Ledger,
        write: Write,
    ) -> None:  # fmt: skip
        self.connect, self.customers, self.pace = connect, customers, pace
        self.ledger, self.write = ledger, write
        self.retries, self.lost = 0, 0
        self.all, self.second = Tally(), Tally()
        self.select = selectors.DefaultSelector()
        self.users: list[User] = []
        self.idle: deque[User] = deque()
        self.due: deque[float] = deque()
        self.waits: list[tuple[float, User]] = []
        self.measuring = False
        self.begun = self.next_second = self.next_due = 0.0

    def run(self) -> None:
        """Warm up, then measure; a line for every second."""
        self.begun = time.monotonic()
        self.next_second, self.next_due = self.begun + 1, self.begun
        warm = self.begun + self.pace.warm_up
        end = warm + self.pace.seconds
        while (now := time.monotonic()) < end:
            if not self.measuring and now >= warm:
                self._measure(now)
            self._seconds(now)
            self._ramp(now)
            self._dispatch(now)
            self._turn(max(0.0, min(self.next_second, end, self._next(now)) - now))
        self._seconds(time.monotonic(), last=True)
        self._drain(time.monotonic() + 30)

    def ended(self, user: User, number: int) -> None:
        """One order is done: committed under this number, or 0 when stock was short."""
        now = time.monotonic()
        took = now - user.begun
        self.ledger.note(user.ref, number)
        self.second.add(took, not number)
        if self.measuring:
            self.all.add(took, not number)
            self.all.times[bucket(int(took * 1e6))] += 1
        think = self.customers.mix.think
        if think:
            self.waits.append((now + self.customers.draw.random() * 2 * think, user))
        else:
            self.idle.append(user)

    def _measure(self, now: float) -> None:
        self.measuring, self.second = True, Tally()
        self.next_second = now + 1
        self.write(f"measuring {time.time():.3f}")

    def _seconds(self, now: float, last: bool = False) -> None:
        while now >= self.next_second or (last and now > self.next_second - 0.5):
            kind = "" if self.measuring else "warm "
            when = time.time() - (now - self.next_second)
            self.write(kind + self.second.line(when, self.retries))
            self.second = Tally()
            self.next_second += 1

    def _ramp(self, now: float) -> None:
        wanted = min(self.pace.users, 1 + int((now - self.begun) * self.pace.ramp))
        while len(self.users) < wanted:
            user = self._connected()
            self.users.append(user)
            self.idle.append(user)

    def _connected(self) -> User:
        database = self.connect()
        user = User(self, database, database.socket)
        self.select.register(user.socket, selectors.EVENT_READ, user)
        return user

    # In an open loop an order is due at its time, whoever is free to make it.
    def _dispatch(self, now: float) -> None:
        if self.waits:
            ready = [user for when, user in self.waits if when <= now]
            self.waits = [one for one in self.waits if one[0] > now]
            self.idle.extend(ready)
        if not self.pace.rate:
            for _ in range(len(self.idle)):
                self._start(self.idle.popleft(), now)
            return
        while self.next_due <= now:
            self.due.append(self.next_due)
            self.next_due += self.customers.draw.expovariate(self.pace.rate)
        while self.due and self.idle:
            self._start(self.idle.popleft(), self.due.popleft())

    def _start(self, user: User, due: float) -> None:
        try:
            user.begin(due)
        except OSError as lost:
            self._gone(user, lost)

    def _next(self, now: float) -> float:
        times = [when for when, _ in self.waits]
        if self.pace.rate:
            times.append(self.next_due)
        if len(self.users) < self.pace.users:
            times.append(self.begun + len(self.users) / self.pace.ramp)
        return min(times, default=now + 1)

    def _turn(self, seconds: float) -> None:
        for key, _ in self.select.select(seconds):
            user: User = key.data
            try:
                user.arrived()
            except OSError as lost:
                self._gone(user, lost)
            except Refused as refused:
                # Shutting down, or starting up: the connection is as good as lost.
                if not refused.code.startswith("57P"):
                    raise LabkitError(
                        f"the database refused a step of an order: {refused}"
                    ) from refused
                self._gone(user, refused)
            if self.idle and not self.pace.rate:
                self._dispatch(time.monotonic())

    # Whether a purchase that was under way is there is for the database to say, at the end.
    def _gone(self, user: User, lost: Exception) -> None:
        self.lost += 1
        self.select.unregister(user.socket)
        user.database.close()
        if user.buying:
            self.ledger.unknown.append(user.ref)
        if not self.pace.patience or (not self.measuring and not self.users):
            raise LabkitError(
                f"the database went away in mid-run: {lost}",
                hint="its own last words say why; --patience waits for it",
            ) from lost
        self.write(f"lost {time.time():.3f} {lost}")
        self.users.remove(user)
        self._come_back(time.monotonic() + self.pace.patience, lost)

    def _come_back(self, until: float, lost: Exception) -> None:
        while True:
            try:
                user = self._connected()
                break
            except (OSError, Refused) as still:
                if time.monotonic() > until:
                    raise LabkitError(
                        f"the database did not come back within {self.pace.patience:g} s: {still}"
                    ) from lost
                self._seconds(time.monotonic())
                time.sleep(PAUSE_SECONDS)
        self.users.append(user)
        self.idle.append(user)

    # What was under way when time was up is finished, and not counted in any second.
    def _drain(self, until: float) -> None:
        self.measuring, self.pace_over = False, True
        self.idle.clear()
        while any(user.order for user in self.users) and time.monotonic() < until:
            for key, _ in self.select.select(0.1):
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


def bucket(value: int) -> int:
    """Microseconds with 8 significant bits: off by 0.2 % at most, and so by its middle."""
    shift = max(0, value.bit_length() - 9)
    return (value >> shift << shift) + (1 << shift >> 1)
