"""The status of a box: what exists of it, whether it works, and the lab.toml that says so."""

import json
import socket
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from labkit.box import needs
from labkit.box.cgroup import Cgroup, groups, hierarchy
from labkit.box.folder import BOXES, Folder
from labkit.box.layout import NAME, OUR_MAC, Layout, check_name, link_name
from labkit.box.network.splice import splice_of
from labkit.box.rootless import user_namespace
from labkit.box.rootless.inside import inside, tier
from labkit.box.rootless.user_namespace import Rootless, kept
from labkit.box.sshd import BANNER_SECONDS, GUEST_BANNER_SECONDS, greets
from labkit.errors import BoxError, LabkitError
from labkit.lab import RELAYS, held, opened
from labkit.machine.stopping import together

SSH_CONFIG = "ssh_config"
"""Beside the lab.toml, where only a command leads to the hosts."""


@dataclass(frozen=True)
class LinkStatus:
    """A link that is shaped: `measured` has the same keys, in words with units.

    `by` says what shapes it: tbf or netem of the kernel, or a relay of ours.
    """

    role: str
    by: str
    asked: Mapping[str, str]
    measured: Mapping[str, str] = field(default_factory=dict)
    alive: bool = True
    """Not so when its relay has ended: then nothing passes."""


@dataclass(frozen=True)
class HostStatus:
    """One host of a box; `alive` means that its sshd greets."""

    name: str
    role: str
    control: str
    address: str
    interface: str
    cpus: tuple[int, ...]
    alive: bool
    memory: str = ""
    """Of a guest; of a container the most that it may use, empty without a limit."""


@dataclass(frozen=True)
class GuestStatus:
    """A guest or container on the host `on`: `running`, `stopped`, `unknown` when none can say."""

    name: str
    on: str
    state: str
    disks: Mapping[str, str] = field(default_factory=dict)
    """Size and format by the name that the guest has for each."""


@dataclass(frozen=True)
class BoxStatus:
    """`state` is `up`, `down` or `broken`; `left` names what exists of a box that is not up."""

    name: str
    state: str
    topology: str = ""
    tier: str = ""
    accelerator: str = ""
    lab: str = ""
    hosts: tuple[HostStatus, ...] = ()
    guests: tuple[GuestStatus, ...] = ()
    links: tuple[LinkStatus, ...] = ()
    """Links with a requested quality, and the measured one."""
    left: tuple[str, ...] = ()
    containers: tuple[GuestStatus, ...] = ()
    engine: str = ""


def status(name: str = "lab") -> BoxStatus:
    """Find out what exists of box `name`, and whether its hosts answer."""
    check_name(name)
    if not needs.is_root() and Rootless(name).exists:
        return _rootless(Rootless(name))
    remains = left_over(name)
    if not remains:
        return BoxStatus(name, "down")
    folder = Folder(name)
    layout = _layout(folder)
    absent = not is_ours(link_name(name)) or not Cgroup.of(name).pids()
    if absent or layout is None or not folder.lab.exists():
        return BoxStatus(name, "broken", left=remains)
    made_of, alive = layout.topology.name, _greeting(layout, layout.hosts)
    links = tuple(
        replace(link, alive=link.by != "relay"
                or held(folder.held(splice_of(layout, link.role).stem)))
        for link in in_force(folder)
    )  # fmt: skip
    dead = [f"the link of {part.role}, whose relay has ended" for part in links if not part.alive]
    if dead or not set(layout.hosts) <= alive:
        hosts = _hosts(layout, alive | _greeting(layout, (*layout.guests, *layout.containers)))
        remains = (*remains, *dead)
        return BoxStatus(name, "broken", made_of, tier(), hosts=hosts, links=links, left=remains)
    guests = _inner(folder.lab, layout, "guest", layout.guests)
    asleep = {guest.name for guest in guests if guest.state != "running"}
    containers = _inner(folder.lab, layout, "container", layout.containers, asleep)
    running = [part.name for part in (*guests, *containers) if part.state != "stopped"]
    hosts = _hosts(layout, alive | _greeting(layout, running))
    accelerator, lab = layout.accelerators, str(folder.lab)
    return BoxStatus(
        name, "up", made_of, tier(), accelerator, lab, hosts, guests, links,
        containers=containers, engine=layout.engines,
    )  # fmt: skip


def stands(name: str) -> bool:
    """Whether box `name` is there, by this machine alone: to ask its hosts takes a second."""
    folder = Folder(name)
    complete = folder.lab.exists() and is_ours(link_name(name))
    return complete and _layout(folder) is not None and bool(Cgroup.of(name).pids())


# Looked at from within; its files have other names out here.
def _rootless(box: Rootless) -> BoxStatus:
    if not box.alive:
        return BoxStatus(box.name, "broken", tier=user_namespace.TIER, left=(f"folder {box.path}",))
    facts = box.verb("status")
    facts |= {"lab": user_namespace.outside(facts["lab"])}
    for key, kind in (("hosts", HostStatus), ("guests", GuestStatus), ("links", LinkStatus),
                      ("containers", GuestStatus)):  # fmt: skip
        facts[key] = tuple(kind(**fields) for fields in facts[key])
    hosts = tuple(replace(host, cpus=tuple(host.cpus)) for host in facts["hosts"])
    return BoxStatus(**{**facts, "hosts": hosts, "left": tuple(facts["left"])})


def processes(name: str) -> list[int]:
    """The numbers of a box's processes; those that they start are found below them.

    Other labs have none here.
    """
    if not NAME.fullmatch(name):
        return []
    if Rootless(name).exists:
        return Rootless(name).processes()
    with suppress(BoxError):  # without control groups there is no such box
        return Cgroup.of(name).pids()
    return []


def names() -> list[str]:
    """All boxes with anything left."""
    folders = [path.name for path in (*BOXES.glob("*"), *kept().glob("*")) if path.is_dir()]
    box_names = {*folders, *groups()}
    links = {link for _, link in socket.if_nameindex() if is_ours(link)}
    # Of a box that left nothing but its link, only the link says a name: one that ends it.
    return sorted(box_names | {link[3:] for link in links - {*map(link_name, box_names)}})


def left_over(name: str) -> tuple[str, ...]:
    """Everything on this machine that belongs to box `name`."""
    folder, link = Folder(name), link_name(name)
    remains = [f"folder {folder.path}"] if folder.path.exists() else []
    remains += [f"folder {folder.scratch}"] if folder.has_scratch else []
    if (hierarchy() or inside()) and (group := Cgroup.of(name)).exists:
        pids = group.pids()
        remains += [f"control group {group.path} with {len(pids)} processes"]
    if is_ours(link):
        remains.append(f"link {link}")
    return tuple(remains)


def is_ours(link: str) -> bool:
    """Whether a link of this machine is one that a box made."""
    with suppress(OSError):
        address = (Path("/sys/class/net") / link / "address").read_text()
        return link.startswith("lk-") and address.startswith(OUR_MAC)
    return False


def _layout(folder: Folder) -> Layout | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return Layout.from_json(folder.layout.read_text())
    return None


# All asked at once: those that are not there answer only by their silence.
def _greeting(layout: Layout, roles: Sequence[str]) -> set[str]:
    def answers(role: str) -> bool:
        patience = GUEST_BANNER_SECONDS if role in layout.guests else BANNER_SECONDS
        return greets(layout.control(role), patience)

    greetings = together(answers, roles, len(roles))
    return {role for role, greeted in zip(roles, greetings, strict=True) if greeted}


def _hosts(layout: Layout, alive: set[str]) -> tuple[HostStatus, ...]:
    return tuple(
        HostStatus(
            f"{layout.name}-{role}", role, layout.control(role), layout.data(role),
            layout.interface(role), layout.cpus_of(role), role in alive, layout.memory_of(role),
        ) for role in layout.roles
    )  # fmt: skip


def in_force(folder: Folder) -> list[LinkStatus]:
    """The shaped links of a box, as they were written down."""
    try:
        return [LinkStatus(**fields) for fields in json.loads(folder.links.read_text())]
    except FileNotFoundError:
        return []


# Who may not read the key still sees the rest.
def _inner(
    lab: Path, layout: Layout, verb: str, roles: Sequence[str], asleep: Collection[str] = ()
) -> tuple[GuestStatus, ...]:
    statuses = []
    with opened(lab) as box:
        for role in roles:
            state = "stopped" if layout.on(role) in asleep else "unknown"
            with suppress(LabkitError):
                if layout.on(role) not in asleep:
                    state = box.host(layout.on(role)).check(verb, f"@{role}", "state").strip()
            disks = layout.disks_of(role) if role in layout.with_disks else {}
            statuses.append(GuestStatus(role, layout.on(role), state, disks))
    return tuple(statuses)


def lab_toml(layout: Layout, links: Sequence[LinkStatus] = ()) -> str:
    """The box as `Lab.read` reads it; its disks are named as their guests' own Linux names them."""
    disks = {role: layout.disks_of(role) for role in layout.with_disks}
    described = (f"{role}: {', '.join(f'{name} {text}' for name, text in named.items())}"
                 for role, named in disks.items())  # fmt: skip
    tables: dict[str, Mapping[str, str]] = {
        "": {"name": layout.name, "known_hosts": "known_hosts",
             "ssh_config": SSH_CONFIG if inside() else ""},
        "box": {"tier": tier(), "accelerator": layout.accelerators, "wakeups": layout.wakeups,
                "containers": layout.engines, "disks": "; ".join(described)},
    }  # fmt: skip
    for role in layout.roles:
        tables[f"hosts.{role}"] = {
            "control": layout.control(role), "address": layout.data(role),
            "interface": layout.interface(role), "user": "root", "key": "key",
            "disks": " ".join(f"/dev/{name}" for name in disks.get(role, ())),
        }  # fmt: skip
    for link in links:
        carried = {RELAYS: splice_of(layout, link.role).stem} if link.by == "relay" else {}
        measured = {f"{key}_measured": text for key, text in link.measured.items()}
        tables[f"links.{link.role}"] = {"by": link.by, **carried, **link.asked, **measured}
    return "\n".join(_table(name, values) for name, values in tables.items())


def _table(name: str, values: Mapping[str, str]) -> str:
    lines = [f'{key} = "{text}"\n' for key, text in values.items() if text]
    return "".join([f"[{name}]\n" if name else "", *lines])
