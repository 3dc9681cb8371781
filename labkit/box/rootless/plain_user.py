"""A box without root: sshd of the user's own on loopback, and a guest behind QEMU's user network.

Its hosts are this machine by another address, and its guest is reached by SSH only: what places
such as Binder allow. Every process of it carries the box's folder in its environment.
"""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labkit.box import view
from labkit.box.folder import Tell
from labkit.box.greeting import GUEST_BANNER_SECONDS, greets
from labkit.box.guests import accelerator, image, kernel
from labkit.box.layout import Layout
from labkit.box.needs import SEARCHED
from labkit.box.rootless.of_user import OfUser, kept
from labkit.box.sshd import HOST_KEY, SETTINGS, KeyPair, sshd_config
from labkit.box.topology import GuestPlan, HostPlan, Topology
from labkit.errors import BoxError
from labkit.machine.account import home
from labkit.machine.ports import free_port

PROGRAMS = ("setsid", "sshd")

TIER = "user"
MARK = "LABKIT_PLAIN_BOX"
HOSTS = {"client": "127.0.0.1", "server": "127.0.0.2"}
GUEST, GUEST_ADDRESS, GATEWAY = "guest", "10.0.2.15", "10.0.2.2"
"""QEMU's user network, which is the same for every guest."""
HOST_SECONDS, GUEST_SECONDS = 15.0, 90.0
MEMORY = "256M"
TOPOLOGY = Topology(
    "loopback", tuple(map(HostPlan, HOSTS)), (GuestPlan(GUEST, "server", MEMORY, "tcg"),)
)


@dataclass(frozen=True)
class Plain(OfUser):
    """One that is made of processes of the user's own; its lab.toml is written last."""

    @property
    def exists(self) -> bool:
        """Whether there is anything of it."""
        return self.path.exists()

    def processes(self) -> list[int]:
        """Find the user's processes that carry its mark or listen for it, and their descendants."""
        parents = {pid: _parent(pid) for pid in _own()}
        found = {pid for pid in parents if self._carries(pid)}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return sorted(found)

    # An sshd writes what it is doing over its environment; its first words stay.
    def _carries(self, pid: int) -> bool:
        if f"{MARK}={self.path}".encode() in _read(pid, "environ").split(b"\0"):
            return True
        words = _read(pid, "cmdline").rstrip(b"\0 ")
        return words.startswith(b"sshd: ") and f" -f {self.path}/".encode() in words

    def up(self, tell: Tell) -> Path:
        """Make it, unless it is up."""
        with self._locked():
            if not self._complete():
                self._remove()
                tell(f"no root here: making box {self.name} of what a plain user may")
                try:
                    self._make(tell)
                except BaseException:
                    self._remove()
                    raise
        return self.lab

    def ports(self) -> dict[str, int]:
        """The sshd port of each of its machines, as it was chosen."""
        with suppress(OSError, ValueError):
            lines = (self.path / "ports").read_text().split()
            return {role: int(port) for role, port in (line.split("=") for line in lines)}
        return {}

    def address(self, role: str) -> str:
        """The address that SSH goes to."""
        return HOSTS.get(role, HOSTS["client"])

    def alive(self, role: str, seconds: float = GUEST_BANNER_SECONDS) -> bool:
        """Whether its sshd greets."""
        return greets(self.address(role), seconds, self.ports().get(role, 1))

    def _complete(self) -> bool:
        return self.lab.exists() and all(map(self.alive, self.ports()))

    def _make(self, tell: Tell) -> None:
        _refuse_unless_possible()
        self.path.mkdir(mode=0o700)
        roles = (*HOSTS, *([] if accelerator.lacking() else [GUEST]))
        keys, user = {role: KeyPair.new() for role in roles}, KeyPair.new()
        ports = {role: free_port(self.address(role)) for role in roles}
        lines = "".join(f"{role}={port}\n" for role, port in ports.items())
        (self.path / "ports").write_text(lines)
        _write(self.path / "key", user.private)
        known = (f"[{self.address(r)}]:{ports[r]} {keys[r].public}\n" for r in roles)
        (self.path / "known_hosts").write_text("".join(known))
        for role in HOSTS:
            self._start_sshd(role, keys[role], user, ports[role])
        for role in HOSTS:
            self._await(role, HOST_SECONDS)
        tell(f"hosts are up: {', '.join(HOSTS)}")
        if GUEST in roles:
            self._start_guest(keys[GUEST], user, ports[GUEST], tell)
        else:
            tell(f"no guest: {accelerator.lacking()}")
        (self.path / "new.toml").write_text(self._lab_toml(ports))
        (self.path / "new.toml").rename(self.lab)

    def _start_sshd(self, role: str, own: KeyPair, user: KeyPair, port: int) -> None:
        place = self.path / role
        place.mkdir()
        _write(place / "host_key", own.private)
        (place / "authorized_keys").write_text(f"{user.public}\n")
        settings = sshd_config(f"{self.address(role)}:{port}", getpass.getuser(), str(place))

        (place / "sshd_config").write_text(settings.rstrip() + f" {MARK}={self.path}\n")
        sshd = shutil.which("sshd", path=SEARCHED)
        self._begin([str(sshd), "-D", "-e", "-f", str(place / "sshd_config")], role)

    def _start_guest(self, own: KeyPair, user: KeyPair, port: int, tell: Tell) -> None:
        found = kernel.find()
        assert found
        root = self.path / "initrd"
        root.write_bytes(image.path(found, tell).read_bytes() + _root(self.name, own, user))
        chosen = "kvm" if accelerator.kvm_works(tell) else "tcg"
        (self.path / "accelerator").write_text(chosen)
        forward = f"hostfwd=tcp:{self.address(GUEST)}:{port}-:22"
        tell(f"booting {GUEST}")
        words = [
            accelerator.QEMU, "-name", GUEST, "-accel", chosen, "-machine", "q35", "-cpu", "max",
            "-m", MEMORY[:-1], "-nodefaults", "-no-user-config", "-display", "none",
            "-serial", "stdio", "-kernel", str(found.image), "-initrd", str(root),
            "-append", kernel.WORDS, "-qmp", f"unix:{self.path}/qmp,server=on,wait=off",
            "-device", "virtio-rng-pci",
            "-netdev", f"user,id=control,restrict=on,{forward}",
            "-device", "virtio-net-pci,netdev=control,romfile=",
        ]  # fmt: skip
        self._begin(words, GUEST)
        self._await(GUEST, GUEST_SECONDS)
        root.unlink()

    def _begin(self, words: Sequence[str], role: str) -> None:
        environment = {"PATH": SEARCHED, "LC_ALL": "C", "HOME": str(home()),
                       MARK: str(self.path)}  # fmt: skip
        with (self.path / f"{role}.log").open("ab") as log:
            subprocess.run(
                ["setsid", "--fork", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment, cwd="/", check=True,
            )  # fmt: skip

    def _await(self, role: str, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self.alive(role):
            if time.monotonic() > until:
                said = (self.path / f"{role}.log").read_text("utf-8", "replace")[-500:]
                raise BoxError(
                    f"the {role} of the box did not start within {seconds:g} s", said=said,
                    hint="`labkit doctor` lists missing parts",
                )  # fmt: skip
            time.sleep(0.02)

    def _lab_toml(self, ports: dict[str, int]) -> str:
        mine = (self.path / "accelerator").read_text() if GUEST in ports else ""
        text = (
            f'name = "{self.name}"\nknown_hosts = "known_hosts"\n'
            f'\n[box]\ntier = "{TIER}"\naccelerator = "{mine}"\n'
        )
        for role, port in ports.items():
            user = "root" if role == GUEST else getpass.getuser()
            address, link = (GUEST_ADDRESS, "vec0") if role == GUEST else (HOSTS[role], "lo")
            text += (
                f'\n[hosts.{role}]\ncontrol = "{self.address(role)}"\nport = {port}\n'
                f'address = "{address}"\ninterface = "{link}"\nuser = "{user}"\nkey = "key"\n'
            )
        return text

    def _still(self, pid: int) -> bool:
        return pid in self.processes()

    @property
    def _gate(self) -> Path:
        return kept()


def impossible() -> str:
    """Reason why this user cannot have such a box; empty if they can."""
    if not shutil.which("sshd", path=SEARCHED):
        return "no sshd (package openssh-server)"
    shell = pwd.getpwuid(os.geteuid()).pw_shell if _listed() else "no account"
    return f"user {os.geteuid()} cannot log in: {shell}" if _closed(shell) else ""


def _refuse_unless_possible() -> None:
    if why := impossible():
        raise BoxError(
            "there can be no box for this user", said=why,
            hint="use sudo, or look at recorded results with --where recorded",
        )  # fmt: skip


def _listed() -> bool:
    with suppress(KeyError):
        return bool(pwd.getpwuid(os.geteuid()))
    return False


def _closed(shell: str) -> bool:
    return shell == "no account" or Path(shell).name in ("nologin", "false")


# What the guest finds on top of the image: its name, its keys, and one link.
def _root(name: str, own: KeyPair, user: KeyPair) -> bytes:
    files = view.files(Layout(name, 0, (0,), TOPOLOGY), GUEST, own, user)
    files[SETTINGS] = view.File(sshd_config("0.0.0.0"))
    files["labkit/etc/hosts"] = view.File(f"127.0.0.1 localhost\n{GATEWAY} root-control\n")
    files["labkit/peer"] = view.File(GATEWAY)
    files["labkit/links"] = view.File(
        f"link set lo up\naddr add {GUEST_ADDRESS}/24 dev vec0\nlink set vec0 up\n"
    )
    assert HOST_KEY in files
    return view.own_root(files)


def _write(file: Path, content: bytes) -> None:
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(content)


def _own() -> Iterator[int]:
    ours = (os.getpid(), os.getppid())
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if place.stat().st_uid == os.geteuid() and int(place.name) not in ours:
                yield int(place.name)


def _read(pid: int, name: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


def _parent(pid: int) -> int:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0
