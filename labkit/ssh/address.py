"""The destination of SSH: as a lab file gives it, and as it is by ssh's own files.

`ssh -G` reads ssh_config(5) with its Host, Match, Include, tokens and canonical names, and prints
what it comes to. What labkit does not follow is refused by name, when a wrong guess could harm
(`REFUSALS`), and else passed over: labkit has ciphers of its own, and never forwards an agent.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import BadInput
from labkit.machine import account
from labkit.ssh.known_hosts import Name

PROGRAMS = ("ssh",)

NOT_READ = "none"
"""Value for reading none of ssh's settings files, as with `ssh -F none`."""
SECONDS = 10.0
HOPS = 8
REFUSALS = {
    "knownhostscommand": "keep the keys in a known_hosts file",
    "revokedhostkeys": "write @revoked lines into a known_hosts file",
    "pkcs11provider": "add the key to your ssh-agent: ssh-add -s",
}
OFF = {"", "none", "no"}
JUMP = re.compile(
    r"(?:(?P<user>[^@]+)@)?(?:\[(?P<six>[^]]+)\]|(?P<host>[^:\[\]]+))(?::(?P<port>\d+))?"
)


@dataclass(frozen=True)
class Address:
    """The host and user of a login; what is left empty is as ssh_config says, or as ssh does."""

    name: str
    control: str
    port: int = 0
    user: str = ""
    key: str = ""
    """A private key file; without it, the agent's keys and ssh's usual files."""
    known_hosts: tuple[str, ...] = ()
    jump: str = ""
    """Hosts on the way, as for `ssh -J`: user@host:port, with commas between."""
    ssh_config: str = NOT_READ
    """A file of ssh's settings, "" for those that ssh reads, or "none"."""
    shared: bool = False
    """Whether the known_hosts files that ssh itself reads count too."""
    lab: str = ""
    """The lab file that this comes from."""


@dataclass(frozen=True)
class Target:
    """One sshd and how to log in there; `jump` is the host to go through, if any."""

    name: str
    known_as: Name
    user: str = "root"
    known_hosts: tuple[Path, ...] = ()
    identities: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    only: bool = False
    """Whether only the identities named here are offered, and not all that the agent has."""
    agent: str = ""
    family: str = "any"
    seconds: float = 15.0
    jump: Target | None = None
    proxy: str = ""
    """A command whose input and output lead to the sshd (ProxyCommand)."""
    trust: str = ""
    """The command that makes its key known."""

    @property
    def address(self) -> str:
        """The address to connect to."""
        return self.known_as.address

    @property
    def port(self) -> int:
        """The port of the sshd."""
        return self.known_as.port

    def __str__(self) -> str:
        return f"{self.user}@{self.address} port {self.port}"


def resolved(at: Address) -> Target:
    """The sshd that an address means, and how to log in there."""
    if at.ssh_config == NOT_READ and not at.jump:
        return Target(
            at.name, Name(at.control, at.port or 22), at.user or "root", _files(at),
            (at.key,) if at.key else (), only=bool(at.key), agent=Said({}).agent,
            trust=_trust(at, at.name),
        )  # fmt: skip
    with _file(at) as file:
        settings = _ask(at.name, at.control, _options(file, at.port, at.user, at.jump))
    if not at.user and settings.one("canonicalizehostname") not in {*OFF, "false"}:
        # ssh reads its files once more with a host's whole name; by then root is in the place of a
        # user whom nobody has named so far.
        options = _options(at.ssh_config, at.port, at.user, at.jump)
        user = _ask(at.name, at.control, options).one("user")
        if user != account.name():
            settings = Said({**settings.values, "user": [user]})
    return _target(at, at.name, settings, at.key, HOPS)


@dataclass(frozen=True)
class Said:
    """The output of `ssh -G`: each setting with its values."""

    values: Mapping[str, Sequence[str]]

    def one(self, key: str, default: str = "") -> str:
        """The value of a setting that has one."""
        return self.values.get(key, [default])[0]

    def expanded(self, text: str) -> str:
        """`text` with ssh's tokens and the home folder put in (ssh_config(5), TOKENS)."""
        machine, home = socket.gethostname(), os.path.expanduser("~")
        tokens = {
            "%": "%", "d": home, "h": self.one("hostname"), "i": str(os.getuid()),
            "j": self.one("proxyjump"), "k": self.one("hostkeyalias") or self.one("host"),
            "L": machine.partition(".")[0], "l": machine, "n": self.one("host"),
            "p": self.one("port"), "r": self.one("user"), "u": account.name(),
        }  # fmt: skip
        text = re.sub(r"\$\{(\w+)\}", lambda match: os.environ.get(match[1], ""), text)
        return re.sub(r"%(.)", lambda match: tokens.get(match[1], match[0]), text)

    def paths(self, key: str) -> tuple[str, ...]:
        """The files that a setting names, one on each line."""
        files = (os.path.expanduser(self.expanded(name)) for name in self.values.get(key, ()))
        return tuple(name for name in files if name != "none")

    @property
    def agent(self) -> str:
        """The socket of the ssh-agent to ask, if any."""
        place = self.one("identityagent", "SSH_AUTH_SOCK")
        if place == "none":
            return ""
        if place == "SSH_AUTH_SOCK" or place.startswith("$"):
            return os.environ.get(place.strip("${}"), "")
        return os.path.expanduser(self.expanded(place))


def _ask(title: str, host: str, options: Sequence[str]) -> Said:
    words = ["ssh", "-G", *options, "--", host]
    try:
        result = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=SECONDS,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError:
        raise BadInput(
            f"{title}: there is no ssh on this machine to ask what ssh_config says",
            hint='install openssh-client, or write ssh_config = "none" into the lab file',
        ) from None
    except subprocess.TimeoutExpired:
        raise BadInput(
            f"{title}: `{' '.join(words)}` had not ended after {SECONDS:g} s",
            hint="is there a Match exec in ssh_config whose command hangs?",
        ) from None
    if result.returncode:
        raise BadInput(f"{title}: ssh cannot say where {host} is", said=result.stderr)
    values: dict[str, list[str]] = {}
    for key, _, value in (line.partition(" ") for line in result.stdout.splitlines()):
        values.setdefault(key.lower(), []).append(value)
    return Said(values)


def _target(at: Address, title: str, answer: Said, key: str, hops: int, jump: str = "") -> Target:
    for setting, instead in REFUSALS.items():
        if answer.one(setting).lower() not in OFF:
            raise BadInput(
                f"{title}: ssh_config sets {setting}, which labkit does not follow",
                said=f"{setting} {answer.one(setting)}",
                hint=instead,
            )
    kinds = ("userknownhostsfile", "globalknownhostsfile") if at.shared else ()
    shared_files = [name for kind in kinds for name in answer.one(kind).split() if name != "none"]
    proxy = answer.one("proxycommand")
    seconds = answer.one("connecttimeout", "none")
    return Target(
        title,
        Name(answer.one("hostname"), int(answer.one("port", "22")), answer.one("hostkeyalias")),
        answer.one("user"),
        (*_files(at), *map(Path, shared_files)),
        (key,) if key else answer.paths("identityfile"),
        answer.paths("certificatefile"),
        bool(key) or answer.one("identitiesonly") == "yes",
        answer.agent,
        answer.one("addressfamily", "any"),
        min(float(seconds), 15.0) if seconds.isdigit() and int(seconds) else 15.0,
        _jump(at, answer, hops),
        "" if proxy in OFF else answer.expanded(proxy),
        _trust(at, jump or at.name),
    )


# The last host of the list is the one to go through; those before it are on the way there.
def _jump(at: Address, answer: Said, hops: int) -> Target | None:
    jumps = answer.one("proxyjump")
    if jumps in OFF:
        return None
    before, _, last = answer.expanded(jumps).rpartition(",")
    match = JUMP.fullmatch(last.removeprefix("ssh://").rstrip("/"))
    if match is None or not hops:
        raise BadInput(
            f"{at.name}: cannot go through the jump host {last!r}",
            hint="it is user@host:port; do the ProxyJump lines of ssh_config make a loop?",
        )
    host = match["six"] or match["host"]
    options = _options(at.ssh_config, match["port"], match["user"], before)
    title = f"{at.name}: jump host {host}"
    # ssh_config has keys of its own for this host; the lab file's is the host's behind it.
    key = at.key if at.ssh_config == NOT_READ else ""
    return _target(at, title, _ask(title, host, options), key, hops - 1, jumps)


def _files(at: Address) -> tuple[Path, ...]:
    return tuple(Path(name).expanduser() for name in at.known_hosts)


def _trust(at: Address, host: str) -> str:
    return shlex.join(["labkit", "trust", host, "--lab", at.lab]) if at.lab else ""


# What a lab file says wins: ssh takes the first value that it obtains. (A key is not said here:
# ssh passes over one that is not there.)
def _options(file: str, port: object, user: str, jump: str) -> list[str]:
    values = {"-F": file, "-p": port, "-l": user, "-J": jump}
    return [word for option, value in values.items() if value for word in (option, str(value))]


# Where nobody names a user it is root, not whoever runs labkit: settings of a host need root.
# ssh takes the first value, so this comes last, after all that its files say.
@contextmanager
def _file(at: Address) -> Iterator[str]:
    if at.user:
        yield at.ssh_config
        return
    read = {NOT_READ: [], "": ["~/.ssh/config", "/etc/ssh/ssh_config"]}
    # ssh would look for the file of a relative name in ~/.ssh, and pass over one that is not there.
    files_named = read.get(at.ssh_config, [os.path.abspath(os.path.expanduser(at.ssh_config))])
    lines = [f'Include "{name}"' for name in files_named]
    with tempfile.NamedTemporaryFile("w", prefix="labkit-ssh-") as file:
        file.write("\n".join([*lines, "Match all", "User root", ""]))
        file.flush()
        yield file.name
