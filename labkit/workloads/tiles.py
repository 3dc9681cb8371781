"""Tiles on an array of disks: a shop, mail and a social application; guests' disks are copied."""

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from labkit.errors import BadInput, HostError, ResultsError
from labkit.host import Host
from labkit.machine.own_place import LASTING
from labkit.machine.scripts import beside
from labkit.machine.stopping import together
from labkit.programs.packages import brings
from labkit.shop import kit
from labkit.tile.users import MAIL, SHOP, SOCIAL
from labkit.workload import Sample, Workload, knob, steps_of
from labkit.workloads._brought import bring, could_bring
from labkit.workloads._database import Served, WantedShop, absent, serving_pages, serving_shop
from labkit.workloads._own_place import own_file, own_folder, own_scratch
from labkit.workloads._sections import joined, parted
from labkit.workloads._server import serving
from labkit.workloads.disk_array import READ_MS, READS, WRITE_MS, WRITES, DiskArray

PROGRAMS = ("dovecot", "nginx", "/usr/lib/postfix/sbin/master", "mkfs.ext4", "python3")

MAIL_SERVER, PLACE = beside(__file__, "tiles_mail.sh"), beside(__file__, "tiles_place.sh")
COPIES = beside(__file__, "tiles_infrastructure.sh")
FIND_MAIL = r"PATH=$PATH:/usr/sbin; command -v postconf && dovecot --version | grep '^2\.3\.'"
"""Dovecot 2.4 reads another form of configuration."""
FOLDER, VOLUME, KIT = "/run/labkit-array", "labkit-volume", "tile"
PLACES = f"{FOLDER}/tiles"
SIZE, SEED = "10MB", 1
WEB_SERVERS, WORKERS, BUFFERS = 3, 4, 32
IMAP = 500
"""IMAP listens this many ports above SMTP."""
READY_SECONDS, LASTS = 120, 7200.0
LOADS = (SHOP, MAIL, SOCIAL)
APPLICATIONS = 0.8
"""Their share of a score; the rest is that of infrastructure operations."""
QUANTILE = 95
PARTS = ("before", "users", "copies", "after")
COUNTERS = WRITE_MS + 1
"""Columns of the volume's counters that are read."""
LEAST, MOST_NUMBER = 1e-6, 1e15


@dataclass(frozen=True)
class TileLoad(Workload):
    """Tiles of labkit's own (after RAID Groups versus Storage Pools, section VMmark Testing).

    Each is a shop's three customers, a mailbox, and two members of a social application. Their
    databases and mail lie on the array; web servers are on `web`, as they keep nothing. `standby`
    idles. Guests' disks are copied meanwhile. The score has VMmark's documented form, and is none.
    """

    roles = ("client", "web", "server", "standby")
    beside = ("standby",)
    loop = "closed"
    name = "tiles"
    longest = 0.0
    """None: array and servers go with the process that asked for them."""
    measures = ("score", "app latency", "app throughput", "guest read latency",
                "guest write latency", "infrastructure", "most tiles")  # fmt: skip
    programs = ("nginx", "python3")
    ours = ("dovecot", "master", "nginx", "postgres", "python3")

    kind: str = "raid"
    allocated: int = 50
    volume: int = 128
    """MiB of the volume that the servers of all tiles have."""
    used: int = 68
    """MiB of each disk."""
    latency: int = 1
    steps: str = "1 7 13"
    """Numbers of tiles; the first one sets the limits of quality."""
    further: int = knob(6, 1, 100)
    """Tiles that are added after the last step for as long as the limits hold."""
    most: int = knob(19, 1, 100)
    limit: float = knob(3.0, 1, 100)
    """Multiple of the first step's 95th percentile that the others may take."""
    think: float = knob(1.0, 0.01, 600)
    """Seconds between two requests of a user, on average."""
    warm_up: float = knob(2.0, 0, 600)
    duration: int = knob(12, 1, 86_400)
    image: int = knob(1, 1, 1024)
    """MiB of a guest's disk that is cloned or moved."""
    pause: float = knob(1.0, 0.1, 600)

    def __post_init__(self) -> None:
        _ = self._array  # refuses what it cannot be
        if not self._steps:
            raise BadInput(f"tiles: steps are numbers of tiles as '1 7 13', not {self.steps!r}")

    @property
    def _array(self) -> DiskArray:
        return DiskArray(self.kind, self.allocated, self.volume, self.used, self.latency)

    @property
    def _steps(self) -> list[int]:
        return steps_of(self.steps, self.most)

    @property
    def seconds(self) -> float:
        """About how long one run takes, if no step is added."""
        step_seconds = self.warm_up + self.duration + self.think + 6
        return 20.0 + self.used / 4 + len(self._steps) * step_seconds

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
        if reason := self._array.lacking(hosts):
            return reason
        if reason := absent("direct", hosts) or absent("web", _at_web(hosts), database=False):
            return reason
        if not server.run("sh", "-c", FIND_MAIL).ok and not could_bring("mail", server):
            remedy = brings("dovecot", "postconf")
            return f"Postfix or Dovecot 2.3 is missing on {server.name}: {remedy}"
        return ""

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Make the array and serve from it; then one number of tiles after the other."""
        server = hosts["server"]
        _place(server, "down")
        # The volume as it is before each run; named by all that it depends on.
        parts_of = (kit.packed(KIT), kit.SERVE_DATABASE.read_bytes(), f"{self.volume}".encode())
        name = hashlib.sha256(b"".join(parts_of)).hexdigest()[:16]
        image = f"{own_folder(server, LASTING)}/tiles-{name}"
        if not server.run("test", "-e", image).ok:
            with self._array.made(server):
                _place(server, "new")
                with _mount(server), _shop(hosts) as shop:
                    hosts["client"].check(*_words(shop, "fill"), seconds=READY_SECONDS)
                _place(server, "keep", image)
        with self._array.made(server, image), _mount(server), ExitStack() as up:
            servers = self._serve(hosts, up)
            self._array.slow_down(server)
            parts: dict[str, str] = {"kept": json.dumps({"limit": self.limit, "pause": self.pause})}
            for number, tiles in enumerate(self._numbers(parts), 1):
                parts |= self._stretch(hosts, servers, tiles, number)
        return joined(parts)

    # All steps, and more for as long as the limits hold.
    def _numbers(self, parts: Mapping[str, str]) -> Iterator[int]:
        yield from self._steps
        tiles = self._steps[-1] + self.further
        while tiles <= self.most:
            limit, _, stretches = _read(joined(parts))
            if not _holds(limit, stretches, tiles - self.further):
                return
            yield tiles
            tiles += self.further

    def _serve(self, hosts: Mapping[str, Host], up: ExitStack) -> tuple[Served, dict[str, Any]]:
        server, at_web = hosts["server"], _at_web(hosts)
        shop = up.enter_context(_shop(hosts))
        folder = up.enter_context(own_scratch(hosts["web"], "tile"))
        hosts["web"].put(server.get(f"{shop.folder}/secret"), f"{folder}/secret", 0o600)
        pages = [
            up.enter_context(serving_pages(
                at_web, replace(shop, number=n, folder=folder), WORKERS, LASTS,
                kit.SHOP if n <= WEB_SERVERS else KIT)).pages
            for n in range(1, WEB_SERVERS + 2)
        ]  # fmt: skip
        word, mail = secrets.token_hex(12), f"{own_folder(server, PLACES)}/mail"
        port = up.enter_context(_mail(server, mail, self.most, word))
        at = [server.address, port, port + IMAP]
        return shop, {"shops": pages[:-1], "social": pages[-1], "mail": at, "word": word}

    def _stretch(
        self, hosts: Mapping[str, Host], servers: tuple[Served, dict[str, Any]], tiles: int,
        number: int,
    ) -> dict[str, str]:  # fmt: skip
        server, (shop, places) = hosts["server"], servers
        stretch = {"tiles": tiles, "seconds": self.duration, "warm_up": self.warm_up,
                   "think": self.think}  # fmt: skip
        order = json.dumps({"stretch": stretch, "places": {**places, "stretch": number}}).encode()
        limit = 120 + 10 * self.seconds

        def drive() -> str:
            try:
                return hosts["client"].check(*_words(shop, "drive"), stdin=order, seconds=limit)
            finally:
                server.run("touch", f"{FOLDER}/enough")

        def copy() -> str:
            words = map(str, (FOLDER, self.image, self.pause))
            return server.check("sh", "-c", COPIES, "copies", *words, seconds=limit)

        before = _place(server, "counts")
        users, copies = together(lambda do: do(), [drive, copy], 2)
        after = _place(server, "counts")
        if not hosts["standby"].run("true").ok:
            raise HostError(f"{hosts['standby'].name}, the idle standby, does not answer")
        texts = zip(PARTS, (before, users, copies, after), strict=True)
        return {f"{part} {number}": text for part, text in texts}

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Score and latencies at each number of tiles, and the most tiles within the limits."""
        limit, pause, stretches = _read(text)
        best = [step for step in stretches if _holds(limit, stretches, step["tiles"])][-1]
        samples = [sample for stretch in stretches for sample in _samples(stretch, pause)]
        return [
            *samples, Sample.single("score", "1", _score(best, pause)),
            Sample.single("most tiles", "1", best["tiles"]),
        ]  # fmt: skip


def _at_web(hosts: Mapping[str, Host]) -> dict[str, Host]:
    return {"client": hosts["client"], "server": hosts["web"]}


def _words(shop: Served, verb: str) -> tuple[str, ...]:
    return ("python3", shop.program, verb, "--at", shop.address, "--secret", shop.secret)


def _place(server: Host, *words: str) -> str:
    verb, *options = words
    return server.check("sh", "-c", PLACE, "place", verb, VOLUME, FOLDER, *options,
                        seconds=READY_SECONDS)  # fmt: skip


@contextmanager
def _mount(server: Host) -> Iterator[None]:
    try:
        _place(server, "up")
        yield
    finally:
        _place(server, "down")


@contextmanager
def _shop(hosts: Mapping[str, Host]) -> Iterator[Served]:
    client = hosts["client"]
    connections = (WEB_SERVERS + 1) * (WORKERS + 2) + 8
    order = WantedShop(SIZE, SEED, False, True, BUFFERS, connections, PLACES)
    with serving_shop(hosts, order, 1, LASTS) as shop:
        program = f"{own_folder(client)}/{kit.name(KIT)}"
        client.put(kit.packed(KIT), program, 0o644)
        yield replace(shop, program=program)


@contextmanager
def _mail(server: Host, folder: str, mailboxes: int, word: str) -> Iterator[int]:
    if not server.run("sh", "-c", FIND_MAIL).ok:
        bring("mail", server)
    with own_file(server, "mail", word.encode()) as secret:

        def words(port: int) -> tuple[str, ...]:
            numbers = map(str, (port, port + IMAP, mailboxes))
            return ("sh", "-c", MAIL_SERVER, "mail", folder, server.address, *numbers, secret)

        with serving(server, words, seconds=READY_SECONDS) as port:
            yield port


# --- figures ------------------------------------------------------------------------------------


Stretch = Mapping[str, Any]
"""The work of one number of tiles."""


# The limit, the pause, and the stretches that a text tells.
def _read(text: str) -> tuple[float, float, list[Stretch]]:
    parts = parted(text, "kept", "users 1")
    numbers = range(1, 1 + (len(parts) - 1) // len(PARTS))
    names = {"kept", *(f"{part} {number}" for number in numbers for part in PARTS)}
    if odd := sorted(names ^ parts.keys()):
        raise ResultsError("tiles: part of the output is not recognized", said=odd[0])
    try:
        limits = json.loads(parts["kept"])
        limit, pause = _number(limits["limit"], 0.99), _number(limits["pause"], LEAST)
    except (KeyError, TypeError, ValueError) as odd:
        raise ResultsError("tiles: its limits cannot be read", said=str(odd)) from None
    stretches = [_stretch(parts, number) for number in numbers]
    if any(smaller["tiles"] >= larger["tiles"] for smaller, larger in pairwise(stretches)):
        raise ResultsError("tiles: their numbers do not grow")
    return limit, pause, stretches


def _stretch(parts: Mapping[str, str], number: int) -> Stretch:
    try:
        users = json.loads(parts[f"users {number}"])
        rows = [line.split() for line in parts[f"copies {number}"].splitlines()]
        spans = [(_number(start), _number(end)) for _, start, end in rows]
        before, after = (parts[f"{at} {number}"].splitlines() for at in ("before", "after"))
        lacks_disk = {before[1], after[1]} != {"0"}
        counts = [[*map(_number, lines[0].split())] for lines in (before, after)]
        took = {load: [[*map(_number, tile)] for tile in users["took"][load]] for load in LOADS}
        nominal = {load: _number(users["nominal"][load], LEAST) for load in LOADS}
        tiles, seconds = int(_number(users["tiles"])), _number(users["seconds"], LEAST)
    except (KeyError, TypeError, ValueError, IndexError) as odd:
        raise ResultsError(f"tiles: stretch {number} cannot be read", said=str(odd)) from None
    if lacks_disk:
        raise ResultsError(f"tiles: the array lost a disk in stretch {number}")
    idle = [load for load in LOADS if len(took[load]) != tiles or not any(took[load])]
    if idle or not spans:
        names = ", ".join(idle) or "copies of disks"
        raise ResultsError(f"tiles: too few answers came in stretch {number}: {names}",
                           hint="measure for longer: duration")  # fmt: skip
    disk = np.array([b - a for a, b in zip(*counts, strict=False)])[:COUNTERS]
    # From the beginning of the first copy to the end of the last one.
    copying = spans[-1][1] - spans[0][0]
    if len(disk) < COUNTERS or disk.min() < 0 or copying <= 0:
        raise ResultsError(f"tiles: a counter went back in stretch {number}")
    return {"tiles": tiles, "seconds": seconds, "nominal": nominal, "took": took,
            "copies a second": len(spans) / copying, "disk": disk}  # fmt: skip


# Whether this number of tiles, and all smaller ones, answered within the limit.
def _holds(limit: float, stretches: Sequence[Stretch], tiles: int) -> bool:
    slow = [[np.percentile(_values(stretch, load), QUANTILE) for load in LOADS]
            for stretch in stretches if stretch["tiles"] <= tiles]  # fmt: skip
    return bool((np.array(slow) <= limit * np.array(slow[0])).all())


# The ms that each answer took, of all tiles.
def _values(stretch: Stretch, load: str) -> npt.NDArray[np.float64]:
    return np.concatenate([np.array(tile, float) for tile in stretch["took"][load]])


# The sum of what tiles did of the nominal, and the infrastructure's part.
def _score(stretch: Stretch, pause: float) -> float:
    work = np.array([[len(tile) / stretch["seconds"] / stretch["nominal"][load]
                      for tile in stretch["took"][load]] for load in LOADS])  # fmt: skip
    tiles = np.prod(work, axis=0) ** (1 / len(LOADS)) @ np.ones(stretch["tiles"])
    copies = stretch["copies a second"] * pause
    return float(APPLICATIONS * tiles + (1 - APPLICATIONS) * copies)


def _samples(stretch: Stretch, pause: float) -> Iterator[Sample]:
    at = f"tiles={stretch['tiles']}"
    yield Sample.single(f"score [{at}]", "1", _score(stretch, pause))
    for load in LOADS:
        values = _values(stretch, load)
        yield Sample(f"app latency [{at}, load={load}]", "ms", values)
        rate = len(values) / stretch["seconds"]
        yield Sample.single(f"app throughput [{at}, load={load}]", "1/s", rate)
    for name, count, took in (("read", READS, READ_MS), ("write", WRITES, WRITE_MS)):
        if stretch["disk"][count]:
            mean = stretch["disk"][took] / stretch["disk"][count]
            yield Sample.single(f"guest {name} latency [{at}]", "ms", mean)
    yield Sample.single(f"infrastructure [{at}]", "1/min", 60 * stretch["copies a second"])


def _number(text: Any, above: float = -1) -> float:
    number = float(text)
    if not above < number < MOST_NUMBER:
        raise ValueError(f"{text} is out of range")
    return number
