"""Tiles on an array of disks: a shop, mail and a social application; guests' disks are copied."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from labkit.errors import BadInput, HostError, ResultsError
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.machine.stopping import together
from labkit.programs.packages import brings
from labkit.shop import kit
from labkit.tile.users import MAIL, SHOP, SOCIAL
from labkit.workload import Sample, Workload
from labkit.workloads._brought import bring, could_bring
from labkit.workloads._database import Served, WantedShop, absent, serving_pages, serving_shop
from labkit.workloads._own_place import own_folder
from labkit.workloads._sections import joined, parted
from labkit.workloads._server import serving
from labkit.workloads.disk_array import READ_MS, READS, WRITE_MS, WRITES, DiskArray

PROGRAMS = ("dovecot", "nginx", "/usr/lib/postfix/sbin/master", "mkfs.ext4", "python3")

MAIL_SERVER, PLACE = beside(__file__, "tiles_mail.sh"), beside(__file__, "tiles_place.sh")
COPIES = beside(__file__, "tiles_infrastructure.sh")
FIND_MAIL = r"PATH=$PATH:/usr/sbin; command -v postconf && dovecot --version | grep '^2\.3\.'"
"""Dovecot 2.4 reads another form of configuration."""
FOLDER, VOLUME, KIT = "/run/labkit-array", "labkit-volume", "tile"
NUMBERS = re.compile(r"\d{1,3}( \d{1,3})*", re.ASCII)
ENGINE, SIZE, SEED = "postgresql", "10MB", 1
WEB_SERVERS, WORKERS, BUFFERS = 3, 4, 32
IMAP = 500
"""IMAP listens this many ports above SMTP."""
LOADS = (SHOP, MAIL, SOCIAL)
APPLICATIONS = 0.8
"""Their share of a score; the rest is that of infrastructure operations."""
QUANTILE = 95
PARTS = ("before", "users", "copies", "after")
COLUMNS = WRITE_MS + 1
"""Counters of the volume that are read."""
LEAST, MOST_NUMBER = 1e-6, 1e15
READY_SECONDS, LASTS = 120, 7200.0


@dataclass(frozen=True)
class TileLoad(Workload):
    """Tiles of labkit's own (after RAID Groups versus Storage Pools, section VMmark Testing).

    Each is a shop's three customers, a mailbox, and two members of a social application. Their
    databases and mail lie on the array; web servers are on `web`, as they keep nothing. `standby`
    idles. Guests' disks are copied meanwhile. The score has VMmark's documented form, and is none.
    """

    roles: ClassVar[tuple[str, ...]] = ("client", "web", "server", "standby")
    beside: ClassVar[tuple[str, ...]] = ("standby",)
    loop: ClassVar[str] = "closed"
    name: ClassVar[str] = "tiles"
    longest: ClassVar[float] = 0.0
    """None: array and servers go with the process that asked for them."""
    measures: ClassVar[tuple[str, ...]] = (
        "score", "app latency", "app throughput", "guest read latency", "guest write latency",
        "infrastructure", "most tiles",
    )  # fmt: skip
    programs: ClassVar[tuple[str, ...]] = ("nginx", "python3")
    ours: ClassVar[tuple[str, ...]] = ("dovecot", "master", "nginx", "postgres", "python3")

    kind: str = "raid"
    allocated: int = 50
    volume: int = 160
    """MiB of the volume that the servers of all tiles have."""
    used: int = 88
    """MiB of each disk."""
    latency: int = 1
    steps: str = "1 7 13"
    """Numbers of tiles; the first one sets the limits of quality."""
    further: int = 6
    """Tiles that are added after the last step for as long as the limits hold."""
    most: int = 25
    limit: float = 3.0
    """Multiple of the first step's 95th percentile that the others may take."""
    think: float = 1.0
    """Seconds between two requests of a user, on average."""
    warm_up: float = 3.0
    duration: int = 30
    image: int = 1
    """MiB of a guest's disk that is cloned or moved."""
    pause: float = 1.0

    def __post_init__(self) -> None:
        _ = self._array  # refuses what it cannot be
        if not self._steps or any(not 1 <= step <= self.most for step in self._steps):
            raise BadInput(f"tiles: steps are numbers of tiles as '1 7 13', not {self.steps!r}")
        self.insist_within(
            further=(1, 100), most=(1, 100), limit=(1, 100), think=(0.01, 600), warm_up=(0, 600),
            duration=(1, 86_400), image=(1, 1024), pause=(0.1, 600),
        )  # fmt: skip

    @property
    def _array(self) -> DiskArray:
        return DiskArray(self.kind, self.allocated, self.volume, self.used, self.latency)

    @property
    def _steps(self) -> list[int]:
        words = self.steps.split() if NUMBERS.fullmatch(self.steps) else []
        return sorted({int(word) for word in words})

    @property
    def seconds(self) -> float:
        """About how long one run takes, if no step is added."""
        each = self.warm_up + self.duration + self.think + 8
        return 60.0 + self.used / 2 + len(self._steps) * each

    @property
    def scaled(self) -> str:
        """The differences from the document."""
        return (
            "a tile is load on servers that all tiles share, not eight virtual machines; "
            f"{self.duration} s are measured, of hours"
        )

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """Disks for the array, and the servers' programs."""
        server = hosts["server"]
        if why := self._array.lacking(hosts):
            return why
        if why := absent(ENGINE, "direct", hosts) or absent("", "web", _at_web(hosts)):
            return why
        if not server.run("sh", "-c", FIND_MAIL).ok and not could_bring("mail", server):
            how = brings("dovecot", "postconf")
            return f"Postfix or Dovecot 2.3 is missing on {server.name}: {how}"
        return ""

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Make the array and serve from it; then one number of tiles after the other."""
        server = hosts["server"]
        server.check("sh", "-c", PLACE, "place", "down", VOLUME, FOLDER)
        with self._array.made(server), _mounted(server), ExitStack() as up:
            given = self._served(hosts, up)
            parts: dict[str, str] = {"kept": json.dumps({"limit": self.limit, "pause": self.pause})}
            for number, tiles in enumerate(self._numbers(parts), 1):
                parts |= self._stretch(hosts, given, tiles, number)
        return joined(parts)

    # All steps, and more for as long as the limits hold.
    def _numbers(self, parts: Mapping[str, str]) -> Iterator[int]:
        yield from self._steps
        tiles = self._steps[-1] + self.further
        while tiles <= self.most and _Run.read(joined(parts)).holds(tiles - self.further):
            yield tiles
            tiles += self.further

    def _served(self, hosts: Mapping[str, Host], up: ExitStack) -> tuple[Served, dict[str, Any]]:
        server, client, at_web = hosts["server"], hosts["client"], _at_web(hosts)
        place = f"{FOLDER}/tiles"
        wanted = WantedShop(
            ENGINE, SIZE, SEED, False, True, BUFFERS, (WEB_SERVERS + 1) * (WORKERS + 2) + 8, place
        )
        shop = up.enter_context(serving_shop(hosts, wanted, 1, LASTS))
        program = f"{own_folder(client)}/{kit.name(KIT)}"
        client.put(kit.packed(KIT), program, 0o644)
        shop = replace(shop, program=program)
        client.check(*_words(shop, "fill"), seconds=READY_SECONDS)
        folder = f"{own_folder(hosts['web'])}/tile-{secrets.token_hex(4)}"
        hosts["web"].check("mkdir", "-m", "700", folder)
        up.callback(hosts["web"].run, "rm", "-rf", folder)
        hosts["web"].put(server.get(f"{shop.folder}/secret"), f"{folder}/secret", 0o600)
        pages = [
            up.enter_context(serving_pages(
                at_web, ENGINE, replace(shop, number=n, folder=folder), WORKERS, LASTS,
                kit.SHOP if n <= WEB_SERVERS else KIT)).pages
            for n in range(1, WEB_SERVERS + 2)
        ]  # fmt: skip
        word = secrets.token_hex(12)
        port = up.enter_context(_mail(server, f"{own_folder(server, place)}/mail", self.most, word))
        mail = [server.address, port, port + IMAP]
        return shop, {"shops": pages[:-1], "social": pages[-1], "mail": mail, "word": word}

    def _stretch(
        self, hosts: Mapping[str, Host], given: tuple[Served, dict[str, Any]], tiles: int,
        number: int,
    ) -> dict[str, str]:  # fmt: skip
        server, (shop, places) = hosts["server"], given
        stretch = {"tiles": tiles, "seconds": self.duration, "warm_up": self.warm_up,
                   "think": self.think}  # fmt: skip
        asked = json.dumps({"stretch": stretch, "places": {**places, "stretch": number}}).encode()
        lasts, limit = self.warm_up + self.duration, 120 + 10 * self.seconds

        def drive() -> str:
            return hosts["client"].check(*_words(shop, "drive"), stdin=asked, seconds=limit)

        def copy() -> str:
            words = map(str, (FOLDER, self.image, lasts, self.pause))
            return server.check("sh", "-c", COPIES, "copies", *words, seconds=limit)

        before = _counts(server)
        users, copies = together(lambda do: do(), [drive, copy], 2)
        after = _counts(server)
        if not hosts["standby"].run("true").ok:
            raise HostError(f"{hosts['standby'].name}, the idle standby, does not answer")
        texts = zip(PARTS, (before, users, copies, after), strict=True)
        return {f"{part} {number}": text for part, text in texts}

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Score and latencies at each number of tiles, and the most tiles within the limits."""
        run = _Run.read(text)
        most = [each for each in run.stretches if run.holds(each.tiles)][-1]
        samples = [sample for stretch in run.stretches for sample in stretch.samples(run.pause)]
        return [
            *samples, Sample.single("score", "1", most.score(run.pause)),
            Sample.single("most tiles", "1", most.tiles),
        ]  # fmt: skip


@dataclass(frozen=True)
class _Stretch:
    """What one number of tiles did."""

    tiles: int
    seconds: float
    nominal: Mapping[str, float]
    took: Mapping[str, list[list[float]]]
    copies: int
    copied: float
    """Seconds from the beginning of the first copy to the end of the last one."""
    disk: npt.NDArray[np.float64]

    @classmethod
    def of(cls, parts: Mapping[str, str], number: int) -> _Stretch:
        try:
            users = json.loads(parts[f"users {number}"])
            rows = [line.split() for line in parts[f"copies {number}"].splitlines()]
            spans = [(_number(begun), _number(ended)) for _, begun, ended in rows]
            before, after = (parts[f"{when} {number}"].splitlines() for when in ("before", "after"))
            degraded = {before[1], after[1]} != {"0"}
            counts = [[*map(_number, lines[0].split())] for lines in (before, after)]
            took = {load: [[*map(_number, tile)] for tile in users["took"][load]]
                    for load in LOADS}  # fmt: skip
            nominal = {load: _number(users["nominal"][load], LEAST) for load in LOADS}
            tiles, seconds = int(_number(users["tiles"])), _number(users["seconds"], LEAST)
        except (KeyError, TypeError, ValueError, IndexError) as odd:
            raise ResultsError(f"tiles: stretch {number} cannot be read", said=str(odd)) from None
        if degraded:
            raise ResultsError(f"tiles: the array lost a disk in stretch {number}")
        if any(len(each) != tiles or not any(each) for each in took.values()) or not spans:
            raise ResultsError(f"tiles: too few answers came in stretch {number}",
                               hint="measure for longer: duration")  # fmt: skip
        disk = np.array([b - a for a, b in zip(*counts, strict=False)])[:COLUMNS]
        copied = spans[-1][1] - spans[0][0]
        if len(disk) < COLUMNS or disk.min() < 0 or copied <= 0:
            raise ResultsError(f"tiles: a counter went back in stretch {number}")
        return cls(tiles, seconds, nominal, took, len(spans), copied, disk)

    def values(self, load: str) -> npt.NDArray[np.float64]:
        """The ms that each answer took, of all tiles."""
        return np.concatenate([np.array(tile, float) for tile in self.took[load]])

    def slow(self, load: str) -> float:
        """The percentile that is limited."""
        return float(np.percentile(self.values(load), QUANTILE))

    def score(self, pause: float) -> float:
        """The sum of what tiles did of the nominal, and the infrastructure's part."""
        done = np.array([[len(tile) / self.seconds / self.nominal[load] for tile in self.took[load]]
                         for load in LOADS])  # fmt: skip
        tiles = float(np.prod(done, axis=0) ** (1 / len(LOADS)) @ np.ones(self.tiles))
        return APPLICATIONS * tiles + (1 - APPLICATIONS) * self.operations * pause

    @property
    def operations(self) -> float:
        """Copies of guests' disks a second."""
        return self.copies / self.copied

    def samples(self, pause: float) -> Iterator[Sample]:
        """Its figures, at its point."""
        at = f"tiles={self.tiles}"
        yield Sample.single(f"score [{at}]", "1", self.score(pause))
        for load in LOADS:
            values = self.values(load)
            yield Sample(f"app latency [{at}, load={load}]", "ms", values)
            yield Sample.single(
                f"app throughput [{at}, load={load}]", "1/s", len(values) / self.seconds
            )
        for name, many, waited in (("read", READS, READ_MS), ("write", WRITES, WRITE_MS)):
            if self.disk[many]:
                each = self.disk[waited] / self.disk[many]
                yield Sample.single(f"guest {name} latency [{at}]", "ms", each)
        yield Sample.single(f"infrastructure [{at}]", "1/min", 60 * self.operations)


@dataclass(frozen=True)
class _Run:
    """All numbers of tiles of one run."""

    limit: float
    pause: float
    stretches: Sequence[_Stretch]

    @classmethod
    def read(cls, text: str) -> _Run:
        parts = parted(text, "kept", "users 1")
        numbers = range(1, 1 + (len(parts) - 1) // len(PARTS))
        names = {"kept", *(f"{part} {number}" for number in numbers for part in PARTS)}
        if odd := sorted(names ^ parts.keys()):
            raise ResultsError("tiles: part of the output is not recognized", said=odd[0])
        try:
            kept = json.loads(parts["kept"])
            limit, pause = _number(kept["limit"], 0.99), _number(kept["pause"], LEAST)
        except (KeyError, TypeError, ValueError) as odd:
            raise ResultsError("tiles: its limits cannot be read", said=str(odd)) from None
        stretches = [_Stretch.of(parts, number) for number in numbers]
        if any(some.tiles >= more.tiles for some, more in pairwise(stretches)):
            raise ResultsError("tiles: their numbers do not grow")
        return cls(limit, pause, stretches)

    def holds(self, tiles: int) -> bool:
        """Whether this number of tiles, and all smaller ones, answered within the limits."""
        first = self.stretches[0]
        return all(
            each.slow(load) <= self.limit * first.slow(load)
            for each in self.stretches if each.tiles <= tiles for load in LOADS
        )  # fmt: skip


def _number(text: Any, above: float = -1) -> float:
    number = float(text)
    if not above < number < MOST_NUMBER:
        raise ValueError(f"{text} is out of range")
    return number


def _at_web(hosts: Mapping[str, Host]) -> dict[str, Host]:
    return {"client": hosts["client"], "server": hosts["web"]}


def _words(shop: Served, verb: str) -> tuple[str, ...]:
    return ("python3", shop.program, verb, "--at", shop.address, "--secret", shop.secret)


def _counts(server: Host) -> str:
    return server.check("sh", "-c", PLACE, "place", "counts", VOLUME, FOLDER)


@contextmanager
def _mounted(server: Host) -> Iterator[None]:
    try:
        server.check("sh", "-c", PLACE, "place", "up", VOLUME, FOLDER, seconds=READY_SECONDS)
        yield
    finally:
        server.check("sh", "-c", PLACE, "place", "down", VOLUME, FOLDER)


@contextmanager
def _mail(server: Host, folder: str, mailboxes: int, word: str) -> Iterator[int]:
    if not server.run("sh", "-c", FIND_MAIL).ok:
        bring("mail", server)
    secret = f"{own_folder(server)}/mail-{secrets.token_hex(4)}"
    server.put(word.encode(), secret, 0o600)

    def words(port: int) -> tuple[str, ...]:
        numbers = map(str, (port, port + IMAP, mailboxes))
        return ("sh", "-c", MAIL_SERVER, "mail", folder, server.address, *numbers, secret)

    try:
        with serving(server, words, seconds=READY_SECONDS) as port:
            yield port
    finally:
        server.run("rm", "-f", secret)
