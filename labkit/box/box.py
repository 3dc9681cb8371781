"""Bringing a lab in a box up, and taking it down again."""

import functools
import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from labkit.box import namespaces, needs, room, topology, view
from labkit.box.cgroup import Cgroup
from labkit.box.containers import container
from labkit.box.folder import Folder, Tell, all_boxes
from labkit.box.guests import accelerator, disk, migration, waking
from labkit.box.layout import ROOT, Layout, check_name, link_name
from labkit.box.machine import Machine
from labkit.box.namespaces import Namespace
from labkit.box.network import links
from labkit.box.network.shaping import Shaping
from labkit.box.processes import ENVIRONMENT, network_of
from labkit.box.rootless import sudo, user_namespace
from labkit.box.rootless.inside import inside, ssh_config
from labkit.box.rootless.user_namespace import Rootless
from labkit.box.sshd import KeyPair, known_hosts
from labkit.box.status import (
    SSH_CONFIG,
    BoxStatus,
    in_force,
    is_ours,
    lab_toml,
    left_over,
    status,
)
from labkit.errors import BoxError, HostError
from labkit.lab import opened

PROGRAMS = ("ip",)

DEFAULT = "pair"
READY_SECONDS, BOOT_SECONDS = 15.0, 330.0
# Nothing of the kernel's own may be on the networks of a box.
SWITCH_SCRIPT = """\
knob=/proc/sys/net/ipv6/conf/default/disable_ipv6
[ ! -e $knob ] || echo 1 > $knob
echo ready && read -r go && exec sleep infinity"""
LISTENS = b"Server listening on "
# Of what a machine keeps on a disk, this is everybody's to write to.
BACKED = "/var/tmp"


def up(name: str = "lab", tell: Tell = lambda _: None, *, made_of: str = "") -> Path:
    """Bring box `name` up, unless it is; return its lab.toml.

    `made_of` names a topology or its file; none means what is up, or else a pair.
    """
    check_name(name)
    plan = topology.find(made_of or DEFAULT)
    folder = Folder(name)
    if not needs.is_root() and sudo.possible():
        if not _serves(status(name), made_of):
            options = [f"--accelerator={accelerator.preferred()}"]
            sudo.box("up", name, tell, *([made_of] if made_of else []), *options)
        return folder.lab
    if not needs.is_root() and (Rootless(name).exists or user_namespace.possible()):
        return Rootless(name).up(tell, made_of)
    _refuse_unless_possible(name, plan)
    with _disk_errors_named(folder), folder.locked(tell):
        now = status(name)
        if now.state == "up" and migration.settled(folder):
            now = status(name)
        if _serves(now, made_of):
            inner = (*now.guests, *now.containers)
            asleep = [machine.name for machine in inner if machine.state != "running"]
            _start_inner(folder, asleep, tell)
            return folder.lab
        if now.left:
            tell(f"box {name} is {now.state}; taking its remains down first")
            _take_down(name)
        try:
            _make(folder, plan, tell)
        except BaseException:
            tell(f"box {name} did not come up; taking its remains down")
            _take_down(name)
            folder.unlock_for_good()
            raise
    return folder.lab


def _serves(now: BoxStatus, made_of: str) -> bool:
    if now.state != "up":
        return False
    choice, odd = accelerator.preferred(), ""
    if made_of and topology.find(made_of).name != now.topology:
        odd = f"made of {now.topology} and not of {made_of}"
    elif now.accelerator == "uml" and choice in ("kvm", "tcg"):
        odd = f"with guests by uml and not by {choice}"
    if odd:
        raise BoxError(
            f"box {now.name} is up already, {odd}",
            hint=f"`labkit box down --name {now.name}` first, or choose another --name",
        )
    return True


def down(name: str = "lab", tell: Tell = lambda _: None) -> None:
    """Take box `name` down, whatever is left of it; nothing else is touched."""
    check_name(name)
    if not needs.is_root() and Rootless(name).exists:
        tell(f"taking box {name} down")
        return Rootless(name).down()
    if not left_over(name) and not Folder(name).lock.exists():
        tell(f"box {name} is not up")
        return
    if not needs.is_root() and sudo.possible():
        sudo.box("down", name, tell)
        return
    _refuse_unless_root()
    folder = Folder(name)
    with folder.locked(tell):
        tell(f"taking box {name} down")
        _take_down(name)
        folder.unlock_for_good()


def _take_down(name: str) -> None:
    group, link = Cgroup.of(name), link_name(name)
    group.kill()
    # Its namespace takes it along as well, but only some time after the last process there ended.
    while is_ours(link):
        words = ["ip", "link", "delete", link]
        subprocess.run(words, capture_output=True, env=ENVIRONMENT)
        time.sleep(0.002 if is_ours(link) else 0)
    Folder(name).remove()
    group.remove()


def _make(folder: Folder, plan: topology.Topology, tell: Tell) -> None:
    group = Cgroup.of(folder.name)
    group.make()
    layout = _promise(folder, plan, tell)
    by = f"; guests by {layout.accelerators}" if layout.guests else ""
    tell(f"making box {folder.name}: {room.planned(layout.topology, Machine.read())}{by}")
    user = KeyPair.new()
    keys = {role: KeyPair.new() for role in layout.roles}
    folder.write(folder.key, user.private, 0o600)
    pairs = {layout.control(role): pair for role, pair in keys.items()}
    folder.write(folder.known_hosts, known_hosts(pairs))
    if inside():
        folder.write(folder.path / SSH_CONFIG, ssh_config())
    _start_hosts(folder, group, layout, keys, user)
    for link in layout.topology.links:
        tell(f"shaping the link of {link.role}")
        Shaping.of(layout.name).shape(link)
    folder.write(folder.lab, lab_toml(layout))
    tell(f"hosts are up: {', '.join(layout.hosts)}")
    if plan.guests and not layout.guests:
        tell(f"no guests: package {needs.NEEDS['guest'].package} is not installed")
    if plan.containers and not layout.containers:
        tell(f"no containers: {container.lacking()}")
    _start_inner(folder, (*layout.guests, *layout.containers), tell)
    if roles := [link.role for link in in_force(folder)]:
        tell(f"measuring the links of {', '.join(roles)}")
        Shaping.of(layout.name).measure(roles)


def _promise(folder: Folder, plan: topology.Topology, tell: Tell) -> Layout:
    made_of = plan.accelerated(functools.cache(lambda kind: accelerator.choice(kind, tell)))
    made_of = made_of.engined(container.choice).woken(waking.best())
    files = accelerator.files(made_of, tell)
    with all_boxes():
        folder.make()
        machine = Machine.read()
        room.check_machine(made_of, machine)
        pair = room.free_pair()
        layout = Layout(folder.name, pair, machine.cpus, made_of, *files, machine.by_node)
        folder.write(folder.layout, layout.to_json())
    return layout


def _start_hosts(
    folder: Folder, group: Cgroup, layout: Layout, keys: dict[str, KeyPair], user: KeyPair
) -> None:
    if any(host.scratch for host in layout.topology.hosts):
        _make_passable(folder.scratch)
    if layout.with_disks:
        _make_passable(folder.disks)
    for role, plan in layout.with_disks.items():
        disk.make(folder.disks / role, plan.volumes, plan.accelerator, layout.uid(role))
    disks = str(folder.disks) if layout.with_disks else ""
    script = f"disks={shlex.quote(disks)}\n{view.script('host_init.sh')}"
    begin = functools.partial(namespaces.begin, group)
    log = folder.log("switch")
    births = {"switch": begin("switch", namespaces.SWITCH, SWITCH_SCRIPT, layout.cpus, log)}
    for role in layout.hosts:
        cpus, log, seat = layout.cpus_of(role), folder.log(role), f"at-{role}"
        group.limit(seat, layout.limit(role))
        if layout.topology.containers_on(role):
            group.delegate(seat)
        on_disk = any(guest.backing == "disk" for guest in layout.topology.guests_on(role))
        scratch = _make_scratch(folder, layout, role)
        text = f"backed={BACKED if on_disk else ''}\nscratch={scratch}\n{script}"
        births[role] = begin(role, namespaces.HOST, text, cpus, log, seat)
    spaces = {role: ready() for role, ready in births.items()}
    pids = {role: namespace.pid for role, namespace in spaces.items()}
    folder.write(folder.pids, json.dumps(pids))
    for role in {plan.on for plan in layout.topology.containers} & set(layout.hosts):
        group.leave_to(pids[role])
    batch, at_switch = ["ip", "-batch", "-"], links.at_switch(layout, {**pids, ROOT: os.getpid()})
    group.run([*network_of(pids["switch"]), *batch], at_switch)
    group.run(batch, links.at_root(layout))
    spaces["switch"].give(b"go\n")
    for role in layout.hosts:
        files = view.files(layout, role, keys[role], user)
        for inner in (view.guest_files, view.container_files):
            files |= inner(layout, role, keys, user)
        spaces[role].give(view.packed(files))
    for role in layout.hosts:
        _await_sshd(spaces[role])


# Others may pass through it but not list it.
def _make_passable(folder: Path) -> None:
    folder.mkdir(0o711)
    folder.chmod(0o711)


def _make_scratch(folder: Folder, layout: Layout, role: str) -> str:
    if not layout.scratch(role):
        return ""
    shared = layout.scratch(role) == topology.SHARING
    place = folder.scratch / (topology.SHARING if shared else role)
    place.mkdir(0o711 if shared else 0o700, exist_ok=shared)
    return str(place)


# What it says is enough: to be greeted by each would start a process of each.
def _await_sshd(host: Namespace) -> None:
    until = time.monotonic() + READY_SECONDS
    while LISTENS not in host.log.read_bytes():
        if not host.alive or time.monotonic() > until:
            raise host.ended()
        time.sleep(0.002)


# What is in a guest comes after it.
def _start_inner(folder: Folder, roles: Sequence[str], tell: Tell) -> None:
    layout = Layout.from_json(folder.layout.read_text())
    inner = [role for role in roles if layout.on(role) in layout.guests]
    for group in ([role for role in roles if role not in inner], inner):
        if group:
            _start_together(folder, layout, group, tell)


# All at once: they wait for their kernels most of the time.
def _start_together(folder: Folder, layout: Layout, roles: Sequence[str], tell: Tell) -> None:
    tell(f"booting {', '.join(roles)}")
    start = time.monotonic()
    with opened(folder.lab) as lab, ThreadPoolExecutor(len(roles)) as pool:
        boots = {
            role: pool.submit(
                lab.host(layout.on(role)).check,
                "container" if role in layout.containers else "guest", f"@{role}", "start",
                seconds=BOOT_SECONDS,
            ) for role in roles
        }  # fmt: skip
        for role, outcome in boots.items():
            try:
                outcome.result()
            except HostError as error:
                raise BoxError(
                    f"{role} of the box did not start", said=error.said,
                    hint="`labkit doctor` lists missing parts; a machine busy with"
                    " other work may need another try",
                ) from error  # fmt: skip
    tell(f"{', '.join(roles)} up after {time.monotonic() - start:.1f} s")


def _refuse_unless_root() -> None:
    if not needs.is_root():
        reason, command = user_namespace.lacking()
        once = f", or type `{command}` once" if command else ""
        raise BoxError(
            "the lab in a box needs root, or a user who may make namespaces",
            said=reason,
            hint=f"use sudo{once}, or look at recorded results with --where recorded",
        )


def _refuse_unless_possible(name: str, plan: topology.Topology) -> None:
    _refuse_unless_root()
    Cgroup.of(name)
    room.check(plan)
    if missing := {name: need for name, need in needs.missing().items() if need.required}:
        absent = [f"{word} (package {need.package})"
                  for need in missing.values() for word in need.absent]  # fmt: skip
        raise BoxError(
            f"the lab in a box needs programs that are not here: {', '.join(absent)}",
            hint=needs.how_to_get(*(need.package for need in missing.values())),
        )
    if plan.guests and not needs.TUN.exists() and not needs.NEEDS["guest"].absent:
        raise BoxError(f"no {needs.TUN}, which the network of guests needs", hint="modprobe tun")


@contextmanager
def _disk_errors_named(folder: Folder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BoxError(
            f"box {folder.name}: cannot write {error.filename or folder.path}",
            said=error.strerror or str(error),
            hint=f"check free space and root's write access below {folder.path.parent}",
        ) from error
