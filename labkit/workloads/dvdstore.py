"""The order-entry database: customers log in, browse and buy, and no order may be lost."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from labkit.errors import HostError, ResultsError
from labkit.host import Host
from labkit.shop.driver import Pace
from labkit.shop.mix import Mix
from labkit.shop.stock import Size
from labkit.workload import Beside, Sample, Series, Workload, choice, knob
from labkit.workloads import _database as database
from labkit.workloads import _lasting
from labkit.workloads._own_place import own_folder
from labkit.workloads._sections import read_object

PROGRAMS = ("postgres", "python3")

ENGINES = ("postgresql",)
WAYS = ("direct", "web")
DURABILITY = ("durable", "fast")
MOST_INSTANCES = 64
FILL_SECONDS, LOOK_SECONDS = 3_600, 600
LONGEST, LONGER = 86_400, 1_800
"""Seconds that customers buy at most; and how much longer than asked, while something happens."""
NUMBER_AND_LINE = re.compile(r"(\d{1,3}) (.*)", re.ASCII)
SECOND = re.compile(r"s (\d+\.\d{3}) (\d+) (\d+) (\d+) (\d+) (\d+)", re.ASCII)
SECOND_OF_SHOP = re.compile(rf"(?:\d{{1,3}} )?{SECOND.pattern}", re.ASCII)
ANY_SECOND = re.compile(r"(?:warm )?s \d+\.\d{3} (\d+) ", re.ASCII)
TIMES = re.compile(r"h (\d+) (\d+)", re.ASCII)


class _Loop:
    """Open where orders have a rate of their own."""

    def __get__(self, load: DvdStore | None, _: type[DvdStore]) -> str:
        return "open" if load and load.rate else "closed"


@dataclass(frozen=True)
class DvdStore(Workload):
    """Defaults are those of the document's driver, but that a run ends after `duration` seconds.

    The mix is the DVD Store's and the code is not: orders a minute are not comparable with its own.
    A purchase that stock does not suffice for is undone, and counted, as there. `fast` is how the
    document's kit sets PostgreSQL: neither `synchronous_commit` nor `full_page_writes`.
    """

    roles = ("client", "server")
    loop: ClassVar[str] = _Loop()  # type: ignore[assignment]
    measures = ("orders per minute", "response time", "undone", "driver cpu per order")
    programs = ("python3",)
    ours = ("postgres", "nginx", "python3")

    engine: str = choice("postgresql", ENGINES)
    size: str = "10MB"
    seed: int = 1
    users: int = 1
    duration: int = knob(60, 1, LONGEST)
    warm_up: int = 60
    think: float = 0.0
    new_customers: float = 20.0
    searches: int = 3
    batch: int = 5
    items: int = 5
    rate: float = 0.0
    """Orders a second that are due whether or not the ones before are done; 0: a closed loop."""
    instances: int = knob(1, 1, MOST_INSTANCES)
    """Databases on each server; every one has a driver process with `users` customers."""
    way: str = choice("direct", WAYS)
    """The customers' way: `direct` to the database, or by the `web`: nginx and an application."""
    nodes: bool = False
    """Whether each database runs on one NUMA node of its machine, those of a node in turn."""
    durability: str = choice("durable", DURABILITY)
    buffers: int = knob(128, 8, 1 << 20)
    """MiB of memory that each database keeps pages in."""
    patience: float = 0.0
    """Seconds to wait for a database that went away in the middle; 0: the run fails."""

    def __post_init__(self) -> None:
        # Each refuses what cannot be meant.
        _ = Size.of(self.size)
        _ = Mix(self.new_customers, self.searches, self.batch, self.items, self.think)
        _ = Pace(self.users, self.duration, self.warm_up, 10.0, self.rate, self.patience)

    @property
    def seconds(self) -> float:
        """About how long one run takes, its filling left out."""
        return self.warm_up + self.duration + 5.0

    @property
    def deadline(self) -> float:
        """After how many seconds it is given up: an emulated guest takes long to be looked at."""
        return LOOK_SECONDS + 3 * self.seconds

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """The client needs Python, the server a database or the place for one."""
        reason = database.absent(self.way, hosts)
        return reason or (database.one_node(hosts) if self.nodes else "")

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Fill the shops if they are not, have customers buy, and check what is there then."""
        with self._shops(hosts) as shops:
            client, key = hosts["client"], f"{self} {shops}"
            words = partial(self._words, "drive", shops)
            output, _ = _lasting.timed(client, key, words, self.deadline)
            return output

    def during(self, hosts: Mapping[str, Host], beside: Beside) -> str:
        """Run as `run` does, for `duration` seconds and until what happens beside it has ended."""
        longest = replace(self, duration=min(self.duration + LONGER, LONGEST))
        client = hosts["client"]
        until = f"{own_folder(client)}/shop-until-{secrets.token_hex(4)}"
        with ExitStack() as going:
            going.callback(client.run, "rm", "-f", until)
            words = going.enter_context(longest.asking(hosts))
            return self._listen(client, (*words, "--until", until), beside, until)

    # The load is steady once its warm-up has ended, and ends once there is the file `until`.
    def _listen(self, client: Host, words: Sequence[str], beside: Beside, until: str) -> str:
        output: list[str] = []
        has_ended, seconds, limit = False, 0, LONGER + self.deadline
        with client.stream(*words, seconds=limit) as lines:
            for line in lines:
                if line.stream == "stdout":
                    output.append(line.text)
                    seconds += bool(SECOND_OF_SHOP.fullmatch(line.text))
                if "measuring " in line.text:
                    beside.begun()
                complete = seconds >= self.duration * self.instances
                if not has_ended and complete and not beside.going:
                    has_ended = True
                    client.put(b"", until)
            if not lines.done.ok:
                raise HostError("dvdstore: the driver failed", said=lines.done.stderr)
        return "".join(f"{line}\n" for line in output)

    @staticmethod
    def over_time(text: str) -> Mapping[str, Series]:
        """Orders in each measured second and its middle, of all shops together."""
        matches = [match for line in text.splitlines() if (match := SECOND_OF_SHOP.fullmatch(line))]
        ends = np.array([float(match[1]) for match in matches])
        seconds, second_of = np.unique(np.round(ends), return_inverse=True)
        counts, size = [float(match[2]) for match in matches], seconds.size
        orders = np.bincount(second_of, counts, minlength=size).astype(np.float64)
        middles = np.bincount(second_of, ends, minlength=size) / np.bincount(second_of) - 0.5
        return {"orders per second": (middles, orders)}

    @contextmanager
    def asking(self, hosts: Mapping[str, Host]) -> Iterator[tuple[str, ...]]:
        """The client's command, while the databases of the server listen."""
        with self._shops(hosts) as shops:
            yield self._words("drive", shops)

    # Where an earlier process has customers at work, the shops have been filled.
    @contextmanager
    def _shops(self, hosts: Mapping[str, Host]) -> Iterator[list[database.Served]]:
        lasts, client = FILL_SECONDS + LONGER + self.deadline, hosts["client"]
        with ExitStack() as shops:
            sites = [shops.enter_context(database.serving_shop(hosts, self._wanted, number, lasts))
                     for number in range(1, self.instances + 1)]  # fmt: skip
            for shop in [] if _lasting.asked(client, client.measuring) else sites:
                client.check(*self._words("fill", [shop]), seconds=FILL_SECONDS)
            if self.way == "web":
                pages = (database.serving_pages(hosts, shop, self.users, lasts) for shop in sites)
                sites = [*map(shops.enter_context, pages)]
            yield sites

    @property
    def _wanted(self) -> database.WantedShop:
        return database.WantedShop(self.size, self.seed, self.nodes, self.durability == "durable",
                                   self.buffers, self.users + 8)  # fmt: skip

    def _words(self, verb: str, shops: list[database.Served]) -> tuple[str, ...]:
        values = {
            "size": self.size, "seed": self.seed, "users": self.users,
            "seconds": self.duration, "warm-up": self.warm_up, "think": self.think,
            "new": self.new_customers, "searches": self.searches, "batch": self.batch,
            "items": self.items, "rate": self.rate, "patience": self.patience,
        }  # fmt: skip
        options = [word for name, value in values.items() for word in (f"--{name}", f"{value}")]
        words: list[str] = []
        for shop in shops:
            words += ("--at", shop.address, "--secret", shop.secret)
            words += ("--pages", shop.pages) if shop.pages else ()
        end = ("--go-on",) if verb == "drive" else ()
        return ("python3", shops[0].program, verb, *words, *options, *end)

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Orders a minute in each second, every response time, and what share was undone."""
        shops = [_read(lines) for lines in _apart(text).values()]
        if not shops:
            raise ResultsError("no shop says what it did", said=text[-200:])
        seconds = min(len(orders) for orders, _, _ in shops)
        orders = sum(np.array(orders[:seconds]) for orders, _, _ in shops)
        times: Counter[int] = sum((times for _, times, _ in shops), Counter())
        counters = ("orders", "short", "cpu", "ended")
        totals = {name: sum(end[name] for *_, end in shops) for name in counters}
        if not totals["orders"]:
            raise ResultsError(
                "dvdstore: no order was done in the measured time",
                hint="let it warm up and run for longer: warm_up, duration",
            )
        values = np.repeat(np.array(sorted(times), float), [times[time] for time in sorted(times)])
        return [
            Sample("orders per minute", "1/min", 60.0 * np.array(orders, float), adds=True),
            Sample("response time", "us", values),
            Sample.single("undone", "share", totals["short"] / totals["orders"]),
            Sample.single("driver cpu per order", "us", 1e6 * totals["cpu"] / totals["ended"]),
        ]


# What one driver said of its shop: orders in each second, how many took how long, and its end.
def _read(lines: list[str]) -> tuple[list[int], Counter[int], Mapping[str, float]]:
    orders: list[int] = []
    times: Counter[int] = Counter()
    fields: dict[str, Any] = {}
    for line in lines:
        if match := SECOND.fullmatch(line):
            orders.append(int(match[2]))
        elif match := TIMES.fullmatch(line):
            times[int(match[1])] += int(match[2])
        elif line.startswith(("shop ", "end ", "checked ")):
            kind, _, content = line.partition(" ")
            said = content.partition(" ")[2] if kind == "shop" else content
            fields[kind] = read_object(said, "dvdstore: cannot read a line")
        elif not line.startswith(("# ", "warm s ", "measuring ", "lost ")) and line != "ready":
            raise ResultsError("dvdstore: cannot read a line", said=line)
    if missing := [kind for kind in ("shop", "end", "checked") if kind not in fields]:
        raise ResultsError(f"dvdstore: the run did not finish: no {missing[0]}")
    for kind, key in (("checked", "wrong"), ("end", "orders"), ("end", "short")):
        if key not in fields[kind]:
            raise ResultsError(f"dvdstore: cannot read what it {kind}: no {key}")
    if wrong := fields["checked"]["wrong"]:
        raise ResultsError(f"dvdstore: the shop was not consistent: {'; '.join(wrong)}")
    total = int(fields["end"]["orders"])
    for noun, count in (("times", sum(times.values())), ("orders by second", sum(orders))):
        if count != total:
            raise ResultsError(f"dvdstore: {count} {noun} of {total} orders")
    return orders, times, fields["end"]


def seconds_in(text: str) -> list[float]:
    """Orders in each whole second so far, the warm-up too: of all shops together."""
    shops = [
        [float(match[1]) for line in lines if (match := ANY_SECOND.match(line))]
        for lines in _apart(text).values()
    ]
    columns = [orders for orders in shops if orders]
    return [sum(column) for column in zip(*columns, strict=False)]


# Of several shops each line begins with the number of its own.
def _apart(text: str) -> dict[str, list[str]]:
    shops: dict[str, list[str]] = {}
    for line in text.splitlines():
        match = NUMBER_AND_LINE.fullmatch(line)
        shops.setdefault(match[1] if match else "", []).append(match[2] if match else line)
    return shops
