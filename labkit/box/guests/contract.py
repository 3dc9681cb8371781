"""The contract of guests, tried in a box of its own: all that one does by the accelerator here."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from labkit.box.box import BOOT_SECONDS, down, up
from labkit.box.folder import Tell
from labkit.box.guests import accelerator
from labkit.box.guests.kvm import BOOT
from labkit.box.guests.migration import migrate
from labkit.box.needs import is_root, missing
from labkit.box.status import status
from labkit.box.this_machine import examine
from labkit.changes.in_force import applied
from labkit.changes.plan import Step, plan
from labkit.errors import BadInput, BoxError, LabkitError
from labkit.host import Host
from labkit.lab import Lab, opened
from labkit.machine.scripts import beside
from labkit.setting import Setting
from labkit.settings.exclusive_cpu import ExclusiveCpu, OtherCpus
from labkit.settings.guest_cpu import GuestCores
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.settings.guest_size import GuestMemory, VirtualNuma
from labkit.settings.mtu import Mtu
from labkit.settings.neighbour import GuestNeighbour, Halting, Neighbour
from labkit.settings.offloads import NicQueues, NicRing, Offloads
from labkit.settings.reclaim import MemoryLock, Reclaim

PROGRAMS = ("ping",)

NAME = "labkit-doctor"
WORKS, REFUSAL, FAILURE = "works", "refused", "failed"
SETTINGS: Mapping[str, Setting] = {
    "NIC past the virtual switch": GuestNic("direct"),
    "NIC past it, packet by packet": GuestNic("direct", batch=1, lro=False),
    "NIC that merges nothing": GuestNic("bridge", batch=1, lro=False),
    "offloads of its NIC": Offloads(gro=False, tso=False, role="guest"),
    "largest packet of its NIC": Mtu(1400, role="guest"),
    "queues of its NIC": NicQueues(role="guest"),
    "rings of its NIC": NicRing(rx=128, role="guest"),
    "CPU of its own": ExclusiveCpu(),
    "CPU that never halts": Halting(halts=False),
    "all CPUs but the last": OtherCpus(),
    "CPUs on cores of their own": GuestCores("guest"),
    "neighbours on its CPUs": Neighbour("busy"),
    "neighbours in its caches": Neighbour("memory"),
    "a guest as a neighbour": GuestNeighbour("busy"),
    "memory locked": MemoryLock(),
    "memory reclaimed": Reclaim(),
    "memory of another size": GuestMemory("guest", 320),
    "NUMA nodes of its own": VirtualNuma("guest", 1),
    "paused": GuestPower("paused"),
    "off": GuestPower("off"),
}
FILE = "/usr/bin/perl"
WRITES = "dd if=/dev/zero of=/run/labkit/scratch/file bs=64k count=64 conv=fsync"
KILL = beside(__file__, "contract_kill.sh")


@dataclass(frozen=True)
class GuestTrial:
    """One thing that was tried: whether it works, what came of it in words, and the time."""

    what: str
    setting: str
    state: str
    words: str
    seconds: float


@dataclass(frozen=True)
class Contract:
    """All that was tried with the guests of one accelerator on one CPU."""

    accelerator: str
    cpu: str
    kernel: str
    trials: tuple[GuestTrial, ...]

    def count(self, state: str) -> int:
        """The number of trials that came to this."""
        return sum(trial.state == state for trial in self.trials)


def try_all(tell: Tell) -> Contract:
    """Make a box, try everything with its guests, and take the box down again."""
    machine, trials = examine().machine, list[GuestTrial]()
    with _box(tell) as lab:
        for title, try_it in _trials(lab):
            tell(f"trying {title}")
            trials.append(_outcome(title, try_it))
        kind = lab.accelerator
    state = status(NAME).state
    works = WORKS if state == "down" else FAILURE
    trials.append(GuestTrial("the box is gone", "", works, state, 0.0))
    return Contract(kind, str(machine["cpu"]), str(machine["kernel"]), tuple(trials))


@contextmanager
def _box(tell: Tell) -> Iterator[Lab]:
    down(NAME)
    try:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            file = Path(folder) / "guests.toml"
            text = beside(__file__, "contract.toml")
            if accelerator.choice("auto", tell) in ("kvm", "tcg"):
                text += beside(__file__, "contract_mover.toml")
            file.write_text(text)
            path = up(NAME, tell, made_of=str(file))
        with opened(path) as lab:
            if "guest" not in lab.hosts:
                raise BoxError("nothing on this machine can run a guest", said=", ".join(missing()))
            yield lab
    finally:
        down(NAME)


Attempt = Callable[[], tuple[str, str]]
"""Makes a state, and words."""


def _trials(lab: Lab) -> Iterator[tuple[str, Attempt]]:
    first = lab.host("server").check("guest", "get")
    yield "boot until one can log in", lambda: _boots(lab)
    yield "its host's programs", lambda: _same_programs(lab)
    yield "a disk", lambda: (WORKS, lab.host("guest").check("sh", "-c", WRITES) or "4 MiB written")
    yield "a container in it", lambda: _contains(lab)
    yield "killed, and started again", lambda: _check_kill(lab)
    yield "moved to another host", lambda: _check_move(lab)
    yield "two CPUs", lambda: _with(lab, "vcpus", "2")
    yield "wake-ups as its kernel has them", lambda: _with(lab, "wakeups", "lossy")
    for title, setting in SETTINGS.items():
        yield title, lambda setting=setting: _there_and_back(lab, setting)  # type: ignore[misc]
    yield "all is as it was", lambda: (
        (WORKS, "") if lab.host("server").check("guest", "get") == first else (FAILURE, "it is not")
    )  # fmt: skip


def _outcome(title: str, try_it: Attempt) -> GuestTrial:
    start = time.monotonic()
    try:
        state, words = try_it()
    except LabkitError as error:
        last = (error.said or "").strip().splitlines()[-1:]
        state, words = FAILURE, "; ".join([error.what, *last])
    kind = type(SETTINGS[title]).__name__ if title in SETTINGS else ""
    return GuestTrial(title, kind, state, " ".join(words.split()), time.monotonic() - start)


def _restart(lab: Lab, guest: str) -> Host:
    server, host = lab.host("server"), lab.host(guest)
    if server.check("guest", f"@{guest}", "state").strip() != "stopped":
        server.check("guest", f"@{guest}", "stop")
    host.close()
    server.check("guest", f"@{guest}", "start", seconds=BOOT_SECONDS)
    return host


def _boots(lab: Lab) -> tuple[str, str]:
    lab.host("server").check("guest", "@guest", "stop")
    start = time.monotonic()
    release = _restart(lab, "guest").check("uname", "-r").strip()
    return WORKS, f"{release}, after {time.monotonic() - start:.1f} s"


def _same_programs(lab: Lab) -> tuple[str, str]:
    sums = {lab.host(role).check("sha256sum", FILE) for role in ("server", "guest")}
    return (WORKS, "the same file") if len(sums) == 1 else (FAILURE, f"{FILE} is another")


def _contains(lab: Lab) -> tuple[str, str]:
    if "inner" not in lab.hosts:
        return REFUSAL, "neither crun nor runc is here, or no control groups"
    lab.host("guest").check("container", "start", seconds=BOOT_SECONDS)
    return WORKS, lab.host("inner").check("hostname").strip() + f", by {lab.containers}"


def _check_kill(lab: Lab) -> tuple[str, str]:
    lab.host("server").check("sh", "-c", KILL, "guest2")
    uptime = _restart(lab, "guest2").check("cut", "-d", " ", "-f1", "/proc/uptime")
    return WORKS, f"up again, for {uptime.strip()} s"


# There and back: the same system goes on, and the connection to it.
def _check_move(lab: Lab) -> tuple[str, str]:
    if not is_root():
        return REFUSAL, "it needs root"
    if "mover" not in lab.hosts:
        try:
            migrate(NAME, "guest", to="client")
        except BadInput as error:
            return REFUSAL, error.what
        return FAILURE, "it moved"
    before = lab.host("mover").check("cat", str(BOOT))
    moves = [migrate(NAME, "mover", to=host) for host in ("server2", "server")]
    if lab.host("mover").check("cat", str(BOOT)) != before:
        return FAILURE, "another system answers"
    words = (f"in {move.total_ms} ms, still for {move.downtime_ms} ms" for move in moves)
    return WORKS, "; back ".join(words)


# A key of its description that counts from its next start on.
def _with(lab: Lab, key: str, value: str) -> tuple[str, str]:
    server = lab.host("server")
    had = server.run("guest", "@guest2", "get", key).stdout.strip()
    result = server.run("guest", "@guest2", "set", f"{key}={value}")
    if not result.ok:
        return REFUSAL, result.stderr.strip().partition(";")[0].removeprefix("guest: ")
    try:
        return WORKS, f"nproc: {_restart(lab, 'guest2').check('nproc').strip()}"
    finally:
        server.check("guest", "@guest2", "set", f"{key}={had}")
        _restart(lab, "guest2")


def _there_and_back(lab: Lab, setting: Setting) -> tuple[str, str]:
    before = _step(lab, setting)
    if before.why:
        return REFUSAL, before.why
    with applied([setting], lab.hosts):
        during = _step(lab, setting)
        if during.why or during.current != setting.wanted:
            return FAILURE, during.why or f"it is {during.current}"
        if not setting.resting:
            lab.host("client").check("ping", "-n", "-q", "-c", "3", "-W", "5", "-i", "0.2",
                                     lab.host("guest").address)  # fmt: skip
    after = _step(lab, setting)
    if after.current != before.current:
        return FAILURE, f"it was {before.current}, and is {after.current}"
    return WORKS, f"{setting.wanted}, and back"


def _step(lab: Lab, setting: Setting) -> Step:
    return plan([setting], lab.hosts).steps[0]


def rendered(contract: Contract, align: Callable[[Sequence[tuple[str, ...]]], str]) -> str:
    """The page for a terminal."""
    head = f"Guests by {contract.accelerator.upper()} on {contract.cpu}, {contract.kernel}"
    rows = [(t.state, t.what, f"{t.seconds:.1f} s", t.words) for t in contract.trials]
    counts = ", ".join(f"{contract.count(state)} {state}" for state in (WORKS, REFUSAL, FAILURE))
    return f"{head}\n\n{align(rows)}\n\n{counts}"
