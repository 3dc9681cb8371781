"""Bringing a lab in a box up, and taking it down again."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labkit.box import links, namespaces, needs, sudo, view
from labkit.box.cgroup import ENVIRONMENT, Cgroup
from labkit.box.folder import Folder, Tell, all_boxes
from labkit.box.layout import GUEST, HOSTS, INTERFACES, Layout, check_name, link_name
from labkit.box.namespaces import Namespace
from labkit.box.sshd import KeyPair, known_hosts
from labkit.box.status import ACCELERATOR, TIER, greets, is_ours, left_over, status
from labkit.box.subnets import free_pair
from labkit.errors import BoxError, HostError
from labkit.lab import opened

READY_SECONDS = 15.0
SWITCH_SCRIPT = "echo ready && read -r go && exec sleep infinity"
TUN = Path("/dev/net/tun")


def silent(_: str) -> None:
    """Tell nobody."""


def up(name: str = "lab", tell: Tell = silent) -> Path:
    """Bring box `name` up, unless it is; return its lab.toml."""
    check_name(name)
    folder = Folder(name)
    if not needs.is_root() and sudo.possible():
        if status(name).state != "up":
            sudo.box("up", name, tell)
        return folder.lab
    _refuse_unless_possible(name)
    with _disk_errors_named(folder), folder.locked(tell):
        now = status(name)
        if now.state == "up":
            if now.guests:
                _start_guest(folder, tell)
            return folder.lab
        if now.left:
            tell(f"box {name} is {now.state}; taking its remains down first")
            _take_down(name)
        try:
            _make(folder, tell)
        except BaseException:
            tell(f"box {name} did not come up; taking down what there is of it")
            _take_down(name)
            folder.unlock_for_good()
            raise
    return folder.lab


def down(name: str = "lab", tell: Tell = silent) -> None:
    """Take box `name` down, whatever is left of it; nothing else is touched."""
    check_name(name)
    if not left_over(name) and not Folder(name).lock.exists():
        tell(f"box {name} is not up")
        return
    if not needs.is_root() and sudo.possible():
        sudo.box("down", name, tell)
        return
    _refuse_unless_root()
    folder = Folder(name)
    with folder.locked(tell):
        _take_down(name)
        folder.unlock_for_good()
    tell(f"box {name} is down")


def _take_down(name: str) -> None:
    group, folder = Cgroup.of(name), Folder(name)
    group.kill()
    _remove_link(link_name(name))
    folder.remove()
    group.remove()


# Its namespace takes it along as well, but only some time after the last process there ended.
def _remove_link(link: str) -> None:
    while is_ours(link):
        words = ["ip", "link", "delete", link]
        subprocess.run(words, capture_output=True, env=ENVIRONMENT)
        time.sleep(0.002 if is_ours(link) else 0)


def _make(folder: Folder, tell: Tell) -> None:
    tell(f"making box {folder.name}")
    group = Cgroup.of(folder.name)
    group.make()
    layout = _promise(folder)
    user = KeyPair.new()
    keys = {role: KeyPair.new() for role in layout.roles}
    folder.write(folder.key, user.private, 0o600)
    addressed = {layout.control(role): pair for role, pair in keys.items()}
    folder.write(folder.known_hosts, known_hosts(addressed))
    _start_hosts(folder, group, layout, keys, user)
    folder.write(folder.lab, lab_toml(layout))
    tell(f"hosts are up: {', '.join(HOSTS)}")
    if layout.guest:
        _start_guest(folder, tell)
    else:
        tell(f"no guest: package {needs.NEEDS['guest'].package} is not installed")


def _promise(folder: Folder) -> Layout:
    with all_boxes():
        folder.make()
        cpus, guest = tuple(sorted(os.sched_getaffinity(0))), not needs.NEEDS["guest"].absent
        layout = Layout(folder.name, free_pair(), cpus, guest)
        folder.write(folder.layout, layout.to_json())
    return layout


def _start_hosts(
    folder: Folder, group: Cgroup, layout: Layout, keys: dict[str, KeyPair], user: KeyPair
) -> None:
    script = view.script("host_init.sh")
    births = [
        namespaces.begin(
            group, "switch", namespaces.SWITCH, SWITCH_SCRIPT, layout.cpus, folder.log("switch")
        )
    ]
    for role in HOSTS:
        cpus, log = layout.cpus_of(role), folder.log(role)
        births.append(namespaces.begin(group, role, namespaces.HOST, script, cpus, log))
    there = {birth.role: birth.ready() for birth in births}
    pids = {role: namespace.pid for role, namespace in there.items()}
    there["switch"].ip(group, links.at_switch(layout, {**pids, "root": os.getpid()}))
    group.run(["ip", "-batch", "-"], links.at_root(layout))
    for role in HOSTS:
        there[role].ip(group, links.at_host(layout, role))
    there["switch"].give(b"go\n")
    for role in HOSTS:
        files = view.files(layout, role, keys[role], user)
        holds = role == "server" and layout.guest
        guests = view.guest_files(layout, keys[GUEST], user) if holds else {}
        there[role].give(view.packed({**files, **guests}))
    for role in HOSTS:
        _await_sshd(there[role], layout.control(role))


def _await_sshd(host: Namespace, address: str) -> None:
    until = time.monotonic() + READY_SECONDS
    while not greets(address):
        if not host.alive or time.monotonic() > until:
            raise host.ended()
        time.sleep(0.005)


def _start_guest(folder: Folder, tell: Tell) -> None:
    with opened(folder.lab) as lab:
        server = lab.host("server")
        if server.check("guest", "state").strip() == "running":
            return
        tell("guest is booting")
        begun = time.monotonic()
        try:
            server.check("guest", "start")
        except HostError as failed:
            raise BoxError("the guest of the box did not start", said=failed.said) from failed
        tell(f"guest is up after {time.monotonic() - begun:.1f} s")


def lab_toml(layout: Layout) -> str:
    """The box as `Lab.read` reads it."""
    head = f'name = "{layout.name}"\nknown_hosts = "known_hosts"\n'
    accelerator = ACCELERATOR if layout.guest else ""
    made_of = f'\n[box]\ntier = "{TIER}"\naccelerator = "{accelerator}"\n'
    tables = [
        f'\n[hosts.{role}]\ncontrol = "{layout.control(role)}"\naddress = "{layout.data(role)}"\n'
        f'interface = "{INTERFACES[role]}"\nuser = "root"\nkey = "key"\n'
        for role in layout.roles
    ]
    return head + made_of + "".join(tables)


def _refuse_unless_root() -> None:
    if not needs.is_root():
        raise BoxError(
            "the lab in a box needs root, to make namespaces and links",
            hint="use sudo, or look at recorded results with --where recorded",
        )


def _refuse_unless_possible(name: str) -> None:
    _refuse_unless_root()
    Cgroup.of(name)
    if missing := {name: need for name, need in needs.missing().items() if need.required}:
        absent = [
            f"{word} (package {need.package})" for need in missing.values() for word in need.absent
        ]
        packages = " ".join(sorted({need.package for need in missing.values()}))
        raise BoxError(
            f"the lab in a box needs programs that are not here: {', '.join(absent)}",
            hint=f"`make system` installs {packages}, and starts no service",
        )
    if not TUN.exists() and not needs.NEEDS["guest"].absent:
        raise BoxError(f"no {TUN}, which the guest's network needs", hint="modprobe tun")


@contextmanager
def _disk_errors_named(folder: Folder) -> Iterator[None]:
    try:
        yield
    except OSError as refused:
        raise BoxError(
            f"box {folder.name}: cannot write {refused.filename or folder.path}",
            said=refused.strerror or str(refused),
            hint=f"is there space, and may root write, below {folder.path.parent}?",
        ) from refused
