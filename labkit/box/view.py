"""A host's view: the machine's own files, read-only, and a /run of its own with these in it."""

from __future__ import annotations

import functools
import io
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from labkit.box.guests import disk, kernel, waking
from labkit.box.guests.image import Archive
from labkit.box.layout import ROOT, Layout
from labkit.box.network.links import at_guest, at_host, container_ends, guest_ends
from labkit.box.sshd import HOST_KEY, SETTINGS, USER_KEYS, KeyPair, sshd_config
from labkit.box.topology import NICS, GuestPlan
from labkit.machine.cpus import ranges

SCRIPTS = Path(__file__).parent
INCLUDE = re.compile(r"^# include (\S+)\n", re.MULTILINE)
GUESTS, CONTAINERS = "labkit/guests", "labkit/containers"
BACKED = "/run/labkit/backed"
"""The folder where a host finds the machine's disk for guests' memory: files without a name."""
# Root's account must not look locked to sshd, whatever the machine's own file says.
PASSWD = """\
root:x:0:0:root:/root:/bin/sh
sshd:x:64002:65534::/run/sshd:/bin/false
nobody:x:65534:65534::/nonexistent:/bin/false
"""


@dataclass(frozen=True)
class File:
    """A file as a host is to find it."""

    content: str | bytes
    mode: int = 0o644
    owner: int = 0

    @property
    def whole(self) -> bytes:
        """Its bytes."""
        return self.content.encode() if isinstance(self.content, str) else self.content


def script(name: str) -> str:
    """Return the text of a script of this folder, with the scripts that it includes."""
    (path,) = SCRIPTS.rglob(name)
    text = path.read_text("utf-8")
    return INCLUDE.sub(lambda match: script(match[1]), text)


def files(layout: Layout, role: str, pair: KeyPair, user: KeyPair) -> dict[str, File]:
    """The files in /run of the machine that plays `role`, by path."""
    etc = {
        "hostname": f"{layout.name}-{role}\n",
        "hosts": _hosts(layout),
        "machine-id": f"{layout.pair:030x}{layout.seat(role):02x}\n",
        "passwd": PASSWD,
        "group": "root:x:0:\nnogroup:x:65534:\n",
    }
    return {
        **{f"labkit/etc/{name}": File(text) for name, text in etc.items()},
        "labkit/etc/shadow": File("root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n", 0o600),
        HOST_KEY: File(pair.private, 0o600),
        USER_KEYS: File(f"{user.public}\n"),
        SETTINGS: File(sshd_config(layout.control(role))),
    }


def guest_files(
    layout: Layout, host: str, keys: Mapping[str, KeyPair], user: KeyPair
) -> dict[str, File]:
    """A host's links, and what its guests need, each of whom may read its own part only."""
    contents = {"labkit/links": File(at_host(layout, host))}
    if layout.topology.guests_on(host):
        contents |= {
            "labkit/bin/guest": File(script("guest.pl"), 0o755),
            "labkit/bin/guest_changes.pl": File(script("guest_changes.pl")),
            "labkit/bin/guest.sh": File(script("guest.sh"), 0o755),
            f"labkit/bin/{waking.LIBRARY}": File(waking.library(), 0o755),
            f"labkit/bin/{waking.REGISTERS_ONLY}": File(waking.library(("ptrace",)), 0o755),
        }
    for plan in layout.topology.guests_on(host):
        place, uid = f"{GUESTS}/{plan.role}", layout.uid(plan.role)
        inner = files(layout, plan.role, keys[plan.role], user)
        inner["labkit/links"] = File(at_guest(layout, plan.role))
        if plan.accelerator == "uml":
            inner["labkit/hotplug"] = File(script("guest_hotplug.pl"), 0o755)
        inner["labkit/peer"] = File(layout.data(layout.hosts[0]))
        inner |= container_files(layout, plan.role, keys, user)
        if layout.scratch(plan.role):
            inner["labkit/scratch_disk"] = File(f"/dev/{disk.device(0, plan.accelerator)}\n")
        contents |= {
            f"{place}/init": File(script("guest_init.sh"), 0o755),
            f"{place}/mounts": File(script("guest_mounts")),
            f"{place}/wires": File(_wires(layout, plan.role)),
            f"{place}/description": File(_description(layout, plan)),
            **{f"{place}/run/{path}": replace(file, owner=uid) for path, file in inner.items()},
        }
        if plan.accelerator != "uml":
            root = _pack(layout, plan.role) if plan.root else _own_root(inner)
            contents[f"{place}/run/own.cpio"] = File(root, 0o600, uid)
    return contents


def container_files(
    layout: Layout, host: str, keys: Mapping[str, KeyPair], user: KeyPair
) -> dict[str, File]:
    """The files that a host or guest needs to run its containers."""
    plans = layout.topology.containers_on(host)
    contents = {"labkit/bin/container": File(script("container.sh"), 0o755)} if plans else {}
    for plan in plans:
        place = f"{CONTAINERS}/{plan.role}"
        inner = files(layout, plan.role, keys[plan.role], user)
        within = host in layout.guests
        count = int(layout.plan(host).vcpus) if within else 0
        cpus = ranges(range(count) if within else layout.cpus_of(plan.role))
        values = {"network": plan.network, "cpus": cpus, "memory": plan.memory or "none"}
        facts = {
            **({} if within else container_ends(layout, plan.role)),
            "link": layout.interface(host), "control_link": "vec0" if within else "",
            "engine": plan.engine, "hostname": f"{layout.name}-{plan.role}",
            "data": layout.data(plan.role), "control": layout.control(plan.role),
            "mac0": layout.mac(0, plan.role), "mac3": layout.mac(3, plan.role),
            "seat": str(layout.seat(plan.role)),
            "scratch": "/run/labkit/scratch" if layout.scratch(plan.role) else "",
        }  # fmt: skip
        contents |= {
            f"{place}/wires": File(_lines(facts)),
            f"{place}/description": File(_lines(values)),
            f"{place}/run/labkit/init": File(script("container_init.sh"), 0o755),
            **{f"{place}/run/{path}": file for path, file in inner.items()},
        }
    return contents


def _lines(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())


# What its kernel finds on top of the image that all guests of QEMU share.
def _own_root(contents: Mapping[str, File]) -> bytes:
    archive = Archive()
    archive.files({"/init": script("qemu_init.sh").encode()})
    for mode in sorted({file.mode for file in contents.values()}):
        archive.files({f"/run/{path}": file.whole for path, file in contents.items()
                       if file.mode == mode}, mode)  # fmt: skip
    return archive.whole()


# It has its host's files, its own among them; containers take more drivers.
def _pack(layout: Layout, guest: str) -> bytes:
    lists = "order contained" if layout.topology.containers_on(guest) else "order"
    archive = Archive()
    text = script("qemu_loader.sh").replace("GUEST", guest).replace("LISTS", lists)
    archive.files({"/init": text.encode()})
    return archive.whole()


def packed(content: Mapping[str, File]) -> bytes:
    """The files as a tar archive, parents before children."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        owners = {
            str(up): file.owner for path, file in content.items() for up in Path(path).parents
        }
        for folder in sorted(set(owners) - {"."}):
            member = tarfile.TarInfo(folder)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            if re.fullmatch(f"{GUESTS}/[^/]+/run", folder):
                member.mode, member.uid = 0o700, owners[folder]
            archive.addfile(member)
        for path, file in content.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(file.whole), file.mode
            member.uid = member.gid = file.owner
            archive.addfile(member, io.BytesIO(file.whole))
    return out.getvalue()


@functools.cache
def _hosts(layout: Layout) -> str:
    roles = layout.roles
    control = "".join(f"{layout.control(role)} {role}-control\n" for role in (ROOT, *roles))
    data = "".join(f"{layout.data(role)} {layout.name}-{role} {role}\n" for role in roles)
    return f"127.0.0.1 localhost\n{control}{data}"


# What a guest does not choose: its user, and the ends of its wires on this host.
def _wires(layout: Layout, guest: str) -> str:
    plan, macs = layout.plan(guest), {f"mac{net}": layout.mac(net, guest) for net in (0, 1)}
    facts = {"user": str(layout.uid(guest)), **guest_ends(layout, guest), **macs}
    facts["accelerator"] = plan.accelerator
    facts["backing"] = BACKED if plan.backing == "disk" else "/tmp"
    place = f"{disk.SEEN_BY_HOSTS}/{guest}"
    for number, (file, volume) in enumerate(disk.files(place, plan.volumes, plan.accelerator)):
        facts[f"disk{number}"] = (
            f"{file} {volume.format} {volume.rate} {volume.drive} {volume.iothread}"
        )
    if layout.kernel:
        image = layout.loader if plan.root else layout.image
        facts |= {"model": NICS[plan.nic], "root": plan.root}
        facts |= {"kernel": layout.kernel, "image": image, "kernel_words": kernel.WORDS}
    return _lines(facts)


def _description(layout: Layout, plan: GuestPlan) -> str:
    cpus = ranges(layout.cpus_of(plan.on))
    values = {"nic": "bridge", "batch": "128", "lro": "on", "memory": plan.memory, "cpus": cpus,
              "policy": "other", "vcpus": plan.vcpus}  # fmt: skip
    values |= {"wakeups": plan.wakeups} if plan.accelerator == "uml" and plan.wakeups else {}
    values |= {"per_node": "all"} if plan.accelerator != "uml" else {}
    return _lines(values)
