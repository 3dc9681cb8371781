"""The settings in ssh's own files for a host: ssh is asked, so they are what ssh would use.

`ssh -G` reads ssh_config(5) with its Host, Match, Include, tokens and canonical names, and prints
what it comes to. What labkit does not follow is refused by name, when a wrong guess could harm
(`REFUSALS`), and else passed over: labkit has ciphers of its own, and never forwards an agent.
"""

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
from labkit.ssh.address import NOT_READ, Address, Target
from labkit.ssh.known_hosts import Name

PROGRAMS = ("ssh",)

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


def resolved(at: Address) -> Target:
    """The sshd that an address means, and how to log in there."""
    if at.ssh_config == NOT_READ and not at.jump:
        return Target(
            at.name, Name(at.control, at.port or 22), at.user or "root", _files(at),
            (at.key,) if at.key else (), only=bool(at.key), agent=_agent({}),
            trust=_trust(at, at.name),
        )  # fmt: skip
    with _file(at) as file:
        settings = _ask(at.name, at.control, [*_settings(file), *_options(at)])
    if not at.user and settings.one("canonicalizehostname") not in {*OFF, "false"}:
        # ssh reads its files once more with a host's whole name; by then root is in the place of a
        # user whom nobody has named so far.
        user = _ask(at.name, at.control, [*_settings(at.ssh_config), *_options(at)]).one("user")
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
        machine = socket.gethostname()
        home = os.path.expanduser("~")
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
    shared_files = (
        *answer.one("userknownhostsfile").split(),
        *answer.one("globalknownhostsfile").split(),
    )
    proxy = answer.one("proxycommand")
    seconds = answer.one("connecttimeout", "none")
    return Target(
        title,
        Name(answer.one("hostname"), int(answer.one("port", "22")), answer.one("hostkeyalias")),
        answer.one("user"),
        _files(at) + tuple(Path(name) for name in shared_files if at.shared and name != "none"),
        (key,) if key else answer.paths("identityfile"),
        answer.paths("certificatefile"),
        bool(key) or answer.one("identitiesonly") == "yes",
        _agent(answer.values),
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
    options = [
        *_settings(at.ssh_config),
        *(("-l", match["user"]) if match["user"] else ()),
        *(("-p", match["port"]) if match["port"] else ()),
        *(("-J", before) if before else ()),
    ]
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
def _options(at: Address) -> list[str]:
    return [
        *(("-p", str(at.port)) if at.port else ()),
        *(("-l", at.user) if at.user else ()),
        *(("-J", at.jump) if at.jump else ()),
    ]


def _settings(file: str) -> tuple[str, ...]:
    return ("-F", file) if file else ()


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


def _agent(values: Mapping[str, Sequence[str]]) -> str:
    place = values.get("identityagent", ["SSH_AUTH_SOCK"])[0]
    if place == "none":
        return ""
    if place == "SSH_AUTH_SOCK" or place.startswith("$"):
        return os.environ.get(place.strip("${}"), "")
    return os.path.expanduser(Said(values).expanded(place))
