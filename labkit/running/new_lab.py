"""A lab.toml from addresses: what its hosts can be asked is filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labkit.errors import BadInput
from labkit.host import Host
from labkit.lab import Lab
from labkit.machine import records

PROGRAMS = ("ip", "virsh")

WORD = re.compile(
    r"(?P<role>[a-z][a-z0-9_]*)=(?:(?P<user>[^@=:\s]+)@)?(?P<control>[^@=:\s]+)(?::(?P<port>\d+))?"
)
LINE = re.compile(r"\bdev (?P<interface>\S+).*\bsrc (?P<address>\S+)")
ADDRESS = re.compile(r"^\d+:\s+(\S+)\s+inet (\S+?)/", re.MULTILINE)
LEASE = re.compile(r"\bipv4\s+([\d.]+)/")
QEMU = ("virsh", "-c", "qemu:///system")


@dataclass(frozen=True)
class NewHost:
    """A table of the file."""

    role: str
    control: str
    user: str = ""
    port: int = 0
    key: str = ""
    address: str = ""
    interface: str = ""

    @classmethod
    def of(cls, word: str, key: str = "") -> NewHost:
        """Read `ROLE=[USER@]ADDRESS[:PORT]`."""
        parts = WORD.fullmatch(word)
        if not parts:
            hint = "such as client=root@192.0.2.10 or server=192.0.2.11:2222"
            raise BadInput(f"{word!r} is not ROLE=[USER@]ADDRESS[:PORT]", hint=hint)
        port = int(parts["port"] or 0)
        return cls(parts["role"], parts["control"], parts["user"] or "", port, key)

    def table(self) -> str:
        """The table, with what is known."""
        rows = {name: value for name, value in vars(self).items() if name != "role" and value}
        lines = [f"{name} = {json.dumps(value)}" for name, value in rows.items()]
        return "\n".join([f"[hosts.{self.role}]", *lines, ""])


def write(file: Path, hosts: Sequence[NewHost], *, overwrite: bool = False) -> None:
    """Write the file; one that says something else is replaced only with `overwrite`."""
    text = "\n".join(host.table() for host in hosts)
    if file.exists() and not overwrite and file.read_text("utf-8") != text:
        raise BadInput(f"{file} is there already", hint="name another file, or edit that one")
    roles = [host.role for host in hosts]
    if twice := [role for role in roles if roles.count(role) > 1]:
        hint = "client, server, guest, server2 ..."
        raise BadInput(f"two hosts have the role {twice[0]}", hint=hint)
    with records.keeping(str(file)):
        file.write_text(text, "utf-8")


def complete(lab: Lab, hosts: Sequence[NewHost]) -> list[NewHost]:
    """Fill in the links of these hosts, and add the guests that libvirt runs on them."""
    tables = []
    for host in hosts:
        peer = next((other.control for other in hosts if other.role != host.role), "")
        ask = ("ip", "-o", "route", "get", peer)
        link = LINE.search(lab.host(host.role).run(*ask).stdout) if peer else None
        at = {"interface": link["interface"], "address": link["address"]} if link else {}
        tables.append(NewHost(**{**vars(host), **at}))
    for host in hosts:
        addresses = {table.role: table.control for table in tables}
        tables += _guests(lab.host(host.role), addresses, host)
    return tables


def other_links(host: Host, interface: str) -> list[str]:
    """The other interfaces of a host that have an address, which test traffic could take."""
    text = host.run("ip", "-o", "-4", "address", "show", "scope", "global").stdout
    return [f"{name} ({at})" for name, at in ADDRESS.findall(text) if name != interface]


# Guests whose address libvirt knows, with roles that are free.
def _guests(host: Host, addresses_of: Mapping[str, str], like: NewHost) -> list[NewHost]:
    result = host.run(*QEMU, "list", "--name")
    addresses = [_lease_of(host, name) for name in result.stdout.split()] if result.ok else []
    new = [address for address in addresses if address and address not in addresses_of.values()]
    roles = (role for n in range(1, len(new) + len(addresses_of) + 2)
             if (role := f"guest{n if n > 1 else ''}") not in addresses_of)  # fmt: skip
    return [replace(like, role=role, control=address, port=0, address="", interface="")
            for role, address in zip(roles, new, strict=False)]  # fmt: skip


def _lease_of(host: Host, guest: str) -> str:
    for source in ("lease", "agent", "arp"):
        result = host.run(*QEMU, "domifaddr", guest, "--source", source)
        if result.ok and (match := LEASE.search(result.stdout)):
            return match[1]
    return ""
