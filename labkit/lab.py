"""A lab: hosts by the role they play, read from a lab.toml.

`data/labs/example.toml` shows one, with what each key means. Two keys are not in it. A guest has
`vm`, the name that libvirt or ESXi on the server has for it. A virtual machine that your own
Pacemaker starts elsewhere has `resource`, the name that this cluster has for it.
`events/_power.py` shows the tables of hosts whose power labkit may take.

The lab in a box writes a file of this form too. Its table [box] says what it is made of, and
[links.client] describes a shaped link.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

from labkit.errors import BadInput, BoxError, Unknown
from labkit.fleet.fleet import Fleet
from labkit.gates import gate
from labkit.host import Guest, Host
from labkit.machine import records
from labkit.machine.places import HOME
from labkit.ssh.address import NOT_READ, Address
from labkit.ssh.sudo import by_command
from labkit.transports.local import Local
from labkit.transports.ssh import Ssh

HOST_KEYS = {
    "control", "address", "interface", "user", "port", "key", "jump", "vm", "become",
    "password_command", "disks", "resource",
}  # fmt: skip
LOCAL = "local"
"""The control of a host that is this machine, and of the lab that is nothing else."""
BY_SSH = ("user", "port", "key", "jump", "vm")
ROLE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}", re.ASCII)
DISK = re.compile(r"/dev/[\w./:+-]+", re.ASCII)
RESOURCE = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
BECOME = ("", "sudo")
LAB_KEYS = {"name", "known_hosts", "ssh_config", "tolerates", "hosts", "box", "links", "power"}
POWER_KEYS: Mapping[str, tuple[str, ...]] = {
    "ipmi": ("on", "board", "user", "password_file"), "virsh": ("on", "vm"), "esxcli": (),
}  # fmt: skip
"""Keys that each way to take a host's power needs."""
BOX_KEYS = {"tier", "accelerator", "containers", "disks", "wakeups"}
TIER_NAMES = {"hosts": "real hosts", "root": "a box", "rootless": "a box made without root"}
"""Names of the tiers of a lab, as readers call them."""
EXAMPLE = HOME / "data/labs/example.toml"
LOCAL_LAB = HOME / "data/labs/local.toml"
"""The file of that lab."""
RELAYS = "relays"
"""Of a link of a box: what carries it, if that is a program; no fact of what the link does."""
SSH_KNOWN_HOSTS = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")


def describe(tier: str) -> str:
    """Name a tier as readers call it."""
    return TIER_NAMES.get(tier, tier)


@dataclass(frozen=True)
class Lab:
    """Hosts by role; `accelerator` says what runs its guests, `containers` its containers."""

    name: str
    hosts: Mapping[str, Host] = field(repr=False)
    tier: str = "hosts"
    """The tier of the lab: what it may do."""
    accelerator: str = ""
    path: Path = field(default=Path(), repr=False, compare=False)
    defaults: Address = field(default=Address("", ""), repr=False, compare=False)
    """The settings that hold for every SSH address of the lab."""
    containers: str = ""
    tolerates: tuple[str, ...] = ()
    """Gates that do not make a run of this lab invalid."""
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """Links that a box shapes, by role: what is asked, and the same keys with `_measured`."""
    disks: str = ""
    """The disks that a box gave its guests."""
    power: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """The hosts whose power labkit may take, by role, and how."""
    wakeups: str = ""
    """Of guests of User-Mode Linux: kept, or lossy as their kernel has them by itself."""

    @classmethod
    def read(cls, path: Path) -> Lab:
        """The lab that a lab.toml describes; nothing is connected to yet."""
        document = _toml(path)
        _refuse_unknown(path, "key", document, LAB_KEYS)
        made_of = document.get("box", {})
        if not isinstance(made_of, dict) or not all(isinstance(v, str) for v in made_of.values()):
            raise BadInput(f"{path}: [box] is a table of texts: {', '.join(BOX_KEYS)}")
        _refuse_unknown(path, "key of [box]", made_of, BOX_KEYS)
        defaults = _for_all(path, document)
        tables = document.get("hosts", {})
        if not isinstance(tables, dict) or not tables:
            raise BadInput(f"{path}: no hosts", hint="add a table such as [hosts.client]")
        hosts = {role: _host(path, role, table, defaults) for role, table in tables.items()}
        hosts |= _with_guests(path, tables, hosts)
        tier, accelerator = made_of.get("tier", "hosts"), made_of.get("accelerator", "")
        name, engine = str(document.get("name", path.stem)), made_of.get("containers", "")
        tolerates, links = _gates(path, document.get("tolerates", [])), document.get("links", {})
        return cls(name, hosts, tier, accelerator, path, defaults, engine, tolerates,
                   _links(path, links, hosts), made_of.get("disks", ""),
                   _power(path, document.get("power", {}), hosts),
                   made_of.get("wakeups", ""))  # fmt: skip

    # What a cell shows that ends with a lab.
    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        guests = f", guests by {self.accelerator}" if self.accelerator else ""
        printer.text(f"{self.name} ({describe(self.tier)}{guests}): {', '.join(self.hosts)}")

    def links_now(self) -> Mapping[str, Mapping[str, str]]:
        """The links as the lab's file has them by now: a box may have shaped them meanwhile."""
        return Lab.read(self.path).links if self.path.is_file() else self.links

    @contextmanager
    def links_alive(self) -> Iterator[None]:
        """Raise when a link is dead before or after: whatever failed or not, that is why."""
        self.check_links()
        try:
            yield
        finally:
            self.check_links()

    def check_links(self) -> None:
        """Raise when what carries a link of a box has ended: nothing passes there any more."""
        is_box = self.emulated and self.path.is_file()
        for role, link in (_toml(self.path).get("links", {}) if is_box else {}).items():
            for stem in link.get(RELAYS, "").split():
                if not held(self.path.with_name(held_by(stem))):
                    raise BoxError(
                        f"the link of {role} is dead: its relay {stem} has ended",
                        hint=f"`labkit box shape {role} --name {self.name}` rebuilds the link",
                    )

    @property
    def emulated(self) -> bool:
        """Whether the lab is made in software, so that its figures are not those of hardware."""
        return self.tier != "hosts"

    def host(self, role: str) -> Host:
        """The host that plays `role`."""
        if role not in self.hosts:
            raise Unknown("role", role, self.hosts)
        return self.hosts[role]

    @cached_property
    def fleet(self) -> Fleet:
        """All hosts by their roles, to do something on all of them at the same time."""
        return Fleet(self.hosts)

    def close(self) -> None:
        """Close all connections."""
        for host in self.hosts.values():
            host.close()


@contextmanager
def opened(path: Path) -> Iterator[Lab]:
    """The lab of `path`, its connections closed at the end."""
    lab = Lab.read(path)
    try:
        yield lab
    finally:
        lab.close()


def _toml(path: Path) -> dict[str, Any]:
    try:
        return records.read_toml(path)
    except FileNotFoundError:
        raise BadInput(f"no lab file {path}", hint=f"{EXAMPLE} shows what one looks like") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: cannot be read as TOML", said=str(error)) from None


# A role becomes a part of names of files and of what is told about its host.
def _host(path: Path, role: str, table: Any, defaults: Address) -> Host:
    if not ROLE.fullmatch(role):
        problem = f"{path}: [hosts.{role!r}] is no role: it holds letters, digits, - and _ only"
        raise BadInput(problem, hint="it begins with a letter, and has at most 40: [hosts.client]")
    if isinstance(table, dict):
        _refuse_unknown(path, f"key of [hosts.{role}]", table, HOST_KEYS)
    if not isinstance(table, dict) or not table.get("control"):
        raise BadInput(f'{path}: [hosts.{role}] needs control = "address"')
    text = {key: table.get(key, "") for key in HOST_KEYS - {"port"}}
    port = table.get("port", 22)
    for key, value in text.items():
        if not isinstance(value, str) or value.startswith("-") or not value.isprintable():
            raise BadInput(f"{path}: [hosts.{role}] {key} must be text, not {value!r}")
    if type(port) is not int or not 0 < port < 65536:
        raise BadInput(f"{path}: [hosts.{role}] port must be 1 to 65535, not {port!r}")
    lab = str(path.absolute())
    if text["control"] == LOCAL:
        if odd := [key for key in BY_SSH if key in table]:
            problem = f"{path}: [hosts.{role}] is this machine, where {odd[0]} means nothing"
            raise BadInput(problem, hint=f"remove {odd[0]}, or let control be an address for SSH")
        login = _as_root(path, role, Local(role), text)
        return Host(role, text["address"] or "localhost", login, text["interface"], lab=lab)
    if text["resource"] and not RESOURCE.fullmatch(text["resource"]):
        raise BadInput(f"{path}: [hosts.{role}] resource is no identifier: {text['resource']!r}")
    key = str(path.parent / Path(os.path.expanduser(text["key"]))) if text["key"] else ""
    control = _bare(path, role, text["control"])
    at = replace(
        defaults, name=role, control=control, port=table.get("port", 0), user=text["user"],
        key=key, jump=text["jump"],
    )  # fmt: skip
    transport = _as_root(path, role, Ssh(at), text)
    disks = _disks(path, role, text["disks"])
    return Host(role, text["address"] or control, transport, text["interface"], disks=disks,
                resource=text["resource"], lab=lab)  # fmt: skip


def _disks(path: Path, role: str, text: str) -> tuple[str, ...]:
    disks = tuple(text.split())
    for disk in disks:
        if not DISK.fullmatch(disk) or disks.count(disk) > 1:
            raise BadInput(
                f"{path}: [hosts.{role}] disks: {disk!r} is no path of a disk, or is there twice",
                hint='such as disks = "/dev/sdb /dev/sdc /dev/sdd"',
            )
    return disks


# The password itself is in no file: a command, the keyring or a human has it.
def _as_root(path: Path, role: str, at: Ssh | Local, text: Mapping[str, str]) -> Ssh | Local:
    if text["become"] not in BECOME:
        raise Unknown(f"become of [hosts.{role}] in {path}", text["become"], BECOME[1:])
    if text["password_command"] and not text["become"]:
        raise BadInput(
            f"{path}: [hosts.{role}] has a password_command, and nothing that asks for a password",
            hint='add become = "sudo"',
        )
    if not text["become"]:
        return at
    return at.as_root(by_command(role, text["password_command"]) or None)


# The server knows of the virtual machines on it: most of their settings are the server's.
def _with_guests(
    path: Path, tables: Mapping[str, Mapping[str, Any]], hosts: Mapping[str, Host]
) -> dict[str, Host]:
    machines = {role: str(table["vm"]) for role, table in tables.items() if table.get("vm")}
    if not machines:
        return {}
    if "server" not in hosts or "server" in machines:
        problem = "vm = is for a guest, such as [hosts.guest], of the host [hosts.server]"
        raise BadInput(f"{path}: {problem}")
    guests = {
        role: Guest(vm, str(tables[role]["control"]), int(tables[role].get("port", 22)))
        for role, vm in machines.items()
    }
    return {"server": replace(hosts["server"], guests=guests)}


# An address of IPv6 may stand in brackets, but the port has a key of its own.
def _bare(path: Path, role: str, control: str) -> str:
    bare = control.removeprefix("[").removesuffix("]")
    if "[" in bare or "]" in bare or "@" in bare or " " in bare:
        raise BadInput(
            f"{path}: [hosts.{role}] control must be an address, not {control!r}",
            hint="or a Host of ssh_config; user = and port = are keys of their own",
        )
    return bare


# What all hosts of a lab share. A box needs none of its user's settings for other hosts.
def _for_all(path: Path, document: Mapping[str, Any]) -> Address:
    files_named = {key: document.get(key, "") for key in ("known_hosts", "ssh_config")}
    for key, value in files_named.items():
        if not isinstance(value, str):
            raise BadInput(f"{path}: {key} must be the name of a file, not {value!r}")
    file = files_named["ssh_config"] or (NOT_READ if "box" in document else "")
    if file not in ("", NOT_READ):
        file = str(path.parent / Path(os.path.expanduser(file)))
        if not Path(file).is_file():
            raise BadInput(f"{path}: no file {file}, which ssh_config = names")
    if files_named["known_hosts"]:
        known_hosts = path.parent / Path(os.path.expanduser(files_named["known_hosts"]))
        if known_hosts.is_dir():
            raise BadInput(f"{path}: {known_hosts}, which known_hosts = names, is a folder")
        return Address("", "", known_hosts=(str(known_hosts),), ssh_config=file, lab=str(path))
    files = (str(path.with_suffix(".known_hosts")), *(SSH_KNOWN_HOSTS if file == NOT_READ else ()))
    is_shared = file != NOT_READ
    return Address("", "", known_hosts=files, ssh_config=file, shared=is_shared, lab=str(path))


def _gates(path: Path, names: Any) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadInput(f"{path}: tolerates must be a list of gates, not {names!r}")
    if odd := [name for name in names if name not in gate.NAMES]:
        raise Unknown(f"gate in {path}", odd[0], gate.NAMES)
    return tuple(names)


def _links(path: Path, tables: Any, hosts: Mapping[str, Host]) -> dict[str, dict[str, str]]:
    if not _are_tables(tables):
        raise BadInput(f"{path}: links are tables: [links.client]")
    _refuse_unknown(path, "machine with a link", tables, set(hosts))
    return {role: {str(key): str(text) for key, text in link.items() if key != RELAYS}
            for role, link in tables.items()}  # fmt: skip


def _power(path: Path, tables: Any, hosts: Mapping[str, Host]) -> dict[str, dict[str, str]]:
    if not _are_tables(tables):
        raise BadInput(f"{path}: power is tables: [power.server]")
    _refuse_unknown(path, "host with power", tables, set(hosts))
    for role, table in tables.items():
        if table.get("by") not in POWER_KEYS:
            raise Unknown(f"by of [power.{role}] in {path}", str(table.get("by")), POWER_KEYS)
        keys = POWER_KEYS[table["by"]]
        _refuse_unknown(path, f"key of [power.{role}]", table, {"by", *keys})
        for key in keys:
            text = table.get(key)
            if not isinstance(text, str) or not text or text.startswith("-"):
                raise BadInput(f"{path}: [power.{role}] needs {key} = a text, for {table['by']}")
        if "on" in keys and table["on"] not in hosts:
            raise Unknown(f"on of [power.{role}] in {path}", table["on"], hosts)
    return tables


def _are_tables(tables: Any) -> TypeGuard[dict[str, dict[str, Any]]]:
    return isinstance(tables, dict) and all(isinstance(table, dict) for table in tables.values())


def held_by(stem: str) -> str:
    """The name of the file, beside the lab.toml of a box, that a relay keeps locked."""
    return f"relay-{stem}.json.held"


def held(file: Path) -> bool:
    """Whether somebody keeps a lock on a file; the kernel takes it from the one who ends."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _refuse_unknown(path: Path, kind: str, table: Any, keys: set[str]) -> None:
    for key in table if isinstance(table, dict) else ():
        if key not in keys:
            raise Unknown(f"{kind} in {path}", key, keys)
