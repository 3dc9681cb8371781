"""A lab: hosts by the role they play, read from a lab.toml.

    name = "two servers in the basement"
    known_hosts = "known_hosts"        # beside this file; without it ~/.ssh/known_hosts

    [hosts.client]                     # the table's name is the role
    control = "192.0.2.10"             # where SSH goes
    address = "10.0.0.10"              # where test traffic goes; without it, the control address
    interface = "eth1"                 # the interface that carries test traffic
    user = "root"
    port = 22
    key = "~/.ssh/id_ed25519"          # without it, the ssh-agent is asked

The lab in a box writes a file of this form too, with a table [box] that says what it is made of.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.errors import BadInput, Unknown
from labkit.host import Host
from labkit.transports.connection import Address
from labkit.transports.ssh import Ssh

HOST_KEYS = {"control", "address", "interface", "user", "port", "key"}
LAB_KEYS = {"name", "known_hosts", "hosts", "box"}
BOX_KEYS = {"tier", "accelerator"}


@dataclass(frozen=True)
class Lab:
    """Hosts by role; `accelerator` says what runs its guests, `tier` what the lab may do."""

    name: str
    hosts: Mapping[str, Host] = field(repr=False)
    tier: str = "hosts"
    accelerator: str = ""
    path: Path = field(default=Path(), repr=False, compare=False)

    @classmethod
    def read(cls, path: Path) -> Lab:
        """The lab that a lab.toml describes; nothing is connected to yet."""
        asked = _toml(path)
        _refuse_unknown(path, "key", asked, LAB_KEYS)
        made_of = asked.get("box", {})
        if not isinstance(made_of, dict) or not all(isinstance(v, str) for v in made_of.values()):
            raise BadInput(f"{path}: [box] is a table of texts: tier and accelerator")
        _refuse_unknown(path, "key of [box]", made_of, BOX_KEYS)
        known = _known_hosts(path, asked.get("known_hosts", ""))
        tables = asked.get("hosts", {})
        if not isinstance(tables, dict) or not tables:
            raise BadInput(f"{path}: no hosts", hint="add a table [hosts.client] and its like")
        hosts = {role: _host(path, role, table, known) for role, table in tables.items()}
        tier, accelerator = made_of.get("tier", "hosts"), made_of.get("accelerator", "")
        return cls(str(asked.get("name", path.stem)), hosts, tier, accelerator, path)

    @property
    def emulated(self) -> bool:
        """Whether the lab is made in software, so that its figures are not those of hardware."""
        return self.tier != "hosts"

    def host(self, role: str) -> Host:
        """The host that plays `role`."""
        if role not in self.hosts:
            raise Unknown("role", role, self.hosts)
        return self.hosts[role]

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
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise BadInput(
            f"no lab file {path}", hint="data/labs/example.toml shows what one looks like"
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as unreadable:
        raise BadInput(f"{path}: cannot be read as TOML", said=str(unreadable)) from None


def _host(path: Path, role: str, table: Any, known: tuple[str, ...]) -> Host:
    if not isinstance(table, dict) or not table.get("control"):
        raise BadInput(f'{path}: [hosts.{role}] needs control = "address"')
    _refuse_unknown(path, f"key of [hosts.{role}]", table, HOST_KEYS)
    text = {key: table.get(key, "") for key in HOST_KEYS - {"port"}}
    port = table.get("port", 22)
    for key, value in text.items():
        if not isinstance(value, str) or value.startswith("-"):
            raise BadInput(f"{path}: [hosts.{role}] {key} must be text, not {value!r}")
    if type(port) is not int or not 0 < port < 65536:
        raise BadInput(f"{path}: [hosts.{role}] port must be 1 to 65535, not {port!r}")
    key = str(path.parent / Path(text["key"]).expanduser()) if text["key"] else ""
    at = Address(role, text["control"], port, text["user"] or "root", key, known)
    return Host(role, text["address"] or text["control"], Ssh(at), text["interface"])


def _known_hosts(path: Path, named: object) -> tuple[str, ...]:
    if not isinstance(named, str):
        raise BadInput(f"{path}: known_hosts must be the name of a file, not {named!r}")
    if named:
        return (str(path.parent / Path(named).expanduser()),)
    return ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")


def _refuse_unknown(path: Path, kind: str, table: Any, known: set[str]) -> None:
    for key in table if isinstance(table, dict) else ():
        if key not in known:
            raise Unknown(f"{kind} in {path}", key, known)
