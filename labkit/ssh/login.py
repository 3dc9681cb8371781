"""Logging in with keys: the agent's, those of files, and OpenSSH certificates. Never a password.

Refused logins are remembered, so that no account is locked by trying again and again: by an empty
file for each user and address that refused us, whose time is when it did. The next attempt may come
from another notebook. Where no file can be written, each call still makes one attempt only.
"""

import hashlib
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import paramiko
from paramiko.agent import AgentSSH

from labkit.errors import LoginRefused, Unreachable
from labkit.machine import account
from labkit.ssh.address import Target
from labkit.ssh.certificates import CERTIFICATE, HostCertificate, Malformed, fingerprint
from labkit.ssh.client import Client, agent_at

AUTH_SECONDS = 15.0
# sshd ends a connection at its sixth refused key (MaxAuthTries).
MOST_KEYS = 6
PAUSE_SECONDS = 60.0


@dataclass(frozen=True)
class Identity:
    """A key to log in with, and where it comes from."""

    key: paramiko.PKey
    source: str

    @property
    def public(self) -> bytes:
        """The public key or certificate that the host is shown."""
        blob = getattr(self.key, "public_blob", None)
        return bytes(blob.key_blob) if blob else self.key.asbytes()

    def __str__(self) -> str:
        return f"{fingerprint(self.public)} ({self.source})"


@dataclass
class Identities:
    """The keys that can be offered, in ssh's order, and the reasons why other files cannot."""

    usable: list[Identity] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)

    def add(self, identity: Identity) -> None:
        """Offer a key once."""
        if identity.public not in {entry.public for entry in self.usable}:
            self.usable.append(identity)


def log_in(client: Client, target: Target) -> None:
    """Offer our keys once, in order; a refusal is remembered, and not tried for a minute."""
    # ssh's usual files need not be there; those that were named should be.
    files = {
        file: _load(file)
        for file in target.identities
        if target.only or os.path.lexists(os.path.expanduser(file))
    }
    locks = [file for file, key in files.items() if isinstance(key, str)]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(AUTH_SECONDS)
        agent = agent_at(connection, target.agent if locks or not target.only else "")
        identities = _identities(target, files, agent)
        if not identities.usable:
            raise _nothing_to_offer(target, identities)
        offers = identities.usable[:MOST_KEYS]
        if not _let_in(client, target, offers):
            with suppress(OSError):
                refusal_file(target).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                refusal_file(target).touch(mode=0o600)
            raise _refusal(client, target, offers, identities)
    with suppress(OSError):
        refusal_file(target).unlink()


def check_pause(target: Target) -> None:
    """Raise while the pause after a refused login lasts."""
    with suppress(OSError):
        moment = refusal_file(target).stat().st_mtime
        if 0 <= time.time() - moment < PAUSE_SECONDS:
            begin, end = (
                time.strftime("%H:%M:%S", time.localtime(seconds))
                for seconds in (moment, moment + PAUSE_SECONDS)
            )
            raise LoginRefused(
                f"{target.name}: {target} refused a login at {begin}; not tried again before {end}",
                hint="repeated failures lock accounts; correct the cause first,"
                f" or, to try at once, remove {refusal_file(target)}",
            )


def refusal_file(target: Target) -> Path:
    """The file whose time is when a login was refused there."""
    name = hashlib.sha256(str(target).encode()).hexdigest()[:32]
    return Path(account.state(), "refused-logins", name)


def _let_in(client: Client, target: Target, offers: list[Identity]) -> bool:
    deadline = time.monotonic() + AUTH_SECONDS
    for identity in offers:
        try:
            client.auth_timeout = max(deadline - time.monotonic(), 0.1)
            client.auth_publickey(target.user, identity.key)
        except paramiko.BadAuthenticationType:
            return False
        except paramiko.AuthenticationException as error:
            # By these words alone paramiko sets a host that says no apart from a silent one.
            if "timeout" in str(error):
                raise TimeoutError(f"no answer to our key within {AUTH_SECONDS:g} s") from None
            if not client.is_active():
                # sshd says no to the last key that it looks at by hanging up (MaxAuthTries), and
                # says why.
                if identity is offers[0] and "authentication" not in client.farewell.lower():
                    raise EOFError("it hung up before it had looked at our key") from None
                return False
        else:
            # A host may take the key and want something else besides.
            return client.is_authenticated()
    return False


# --- keys -----------------------------------------------------------------------------------


# As ssh: what the agent holds of the named files, what else it holds, then the files.
def _identities(
    target: Target, files: Mapping[str, paramiko.PKey | str], agent: AgentSSH
) -> Identities:
    identities = Identities()
    keys = [Identity(key, "ssh-agent") for key in agent.get_keys()]
    publics = _public_parts(target) if keys else set()
    for identity in sorted(keys, key=lambda candidate: candidate.public not in publics):
        if identity.public in publics or not target.only:
            identities.add(identity)
    for file, key in files.items():
        _add_file(identities, file, key, target.certificates)
    return identities


def _public_parts(target: Target) -> set[bytes]:
    beside = [f"{file}{end}" for file in target.identities for end in (".pub", "-cert.pub")]
    return {_public(file) for file in (*target.identities, *beside, *target.certificates)}


def _add_file(
    identities: Identities, file: str, key: paramiko.PKey | str, certificates: tuple[str, ...]
) -> None:
    if isinstance(key, str):
        if _public(f"{file}.pub") not in {identity.public for identity in identities.usable}:
            identities.unusable.append(f"{file}: {key}")
        return
    for name in (*certificates, f"{file}-cert.pub"):
        certificate = _certificate(name)
        if certificate is None or certificate.key != key.asbytes():
            continue
        if certificate.ends <= time.time():
            identities.unusable.append(f"{name}: the certificate has expired")
            continue
        private_key = _load(file)
        assert isinstance(private_key, paramiko.PKey)
        private_key.load_certificate(name)
        identities.add(Identity(private_key, name))
    identities.add(Identity(key, file))


# A private key without its certificate, or why it cannot be used.
def _load(file: str) -> paramiko.PKey | str:
    path = Path(file).expanduser()
    if path.suffix == ".pub":
        return f"it is a public key; name the private one, {path.with_suffix('')}"
    try:
        open_to = path.stat()
        # ssh refuses such a key too: others may have read it.
        if open_to.st_uid == os.getuid() and open_to.st_mode & 0o077:
            return f"others may read it; chmod 600 {path}"
        key = copy(_parse(path, open_to.st_ino, open_to.st_size, open_to.st_ctime_ns))
    except (OSError, ValueError, TypeError, paramiko.SSHException) as error:
        return _explain(error)
    key.public_blob = None
    return key


# Once for all hosts of a fleet; another file, or another content, is read anew.
@lru_cache(maxsize=16)
def _parse(path: Path, *_: int) -> paramiko.PKey:
    return paramiko.PKey.from_path(path)


def _explain(unreadable: Exception) -> str:
    text = f"{getattr(unreadable, 'strerror', None) or unreadable or type(unreadable).__name__}"
    if "password" in text.lower() or "encrypted" in text.lower():
        return "it is locked with a passphrase; ssh-add it to your ssh-agent"
    return text


def _public(file: str) -> bytes:
    with suppress(OSError, ValueError, IndexError, paramiko.SSHException):
        return paramiko.pkey.PublicBlob.from_file(os.path.expanduser(file)).key_blob
    return b""


def _certificate(file: str) -> HostCertificate | None:
    blob = _public(file)
    with suppress(Malformed):
        return HostCertificate.read(blob) if CERTIFICATE.encode() in blob[:64] else None
    return None


# --- what is said ---------------------------------------------------------------------------


def _nothing_to_offer(target: Target, identities: Identities) -> Unreachable:
    bring = f"ssh-copy-id -p {target.port} {target.user}@{target.address}"
    make = f"make one: ssh-keygen -t ed25519; bring it to the host: {bring}"
    if identities.unusable:
        file = identities.unusable[0].partition(":")[0]
        absent = not Path(file).expanduser().exists()
        return Unreachable(
            f"{target.name}: cannot use the private key {file}",
            said="\n".join(identities.unusable),
            hint=f"put the right key = ... into the lab file, or {make}"
            if absent or "public key" in identities.unusable[0]
            else "add a key with a passphrase to an ssh-agent: ssh-add",
        )
    return Unreachable(
        f"{target.name}: no key to log in with",
        hint=f"{make}; or name one with key = in the lab file,"
        " or add one to an ssh-agent that is not locked",
    )


def _refusal(
    client: Client, target: Target, offers: list[Identity], identities: Identities
) -> LoginRefused:
    texts = [
        (client.get_banner() or b"").decode("utf-8", "replace"),
        *identities.unusable,
        f"Authentication failed; offered: {', '.join(map(str, offers))}",
    ]
    return LoginRefused(
        f"{target.name}: {target} does not let us in; not tried again for a minute",
        said="\n".join(texts),
        hint=f"check its authorized_keys, and that the account is active;"
        f" try `ssh -p {target.port} {target.user}@{target.address} true`",
    )
