"""Which host keys we know: read from OpenSSH's known_hosts files, never written to them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import paramiko
from paramiko.hostkeys import HostKeyEntry, HostKeys

from labkit.errors import HostKeyRefused

RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")
"""How an RSA key, which known_hosts calls ssh-rsa, is asked for."""


@dataclass(frozen=True)
class KnownHosts:
    """The keys of some known_hosts files; a revoked key is refused whoever shows it."""

    entries: tuple[HostKeyEntry, ...]
    revoked: frozenset[str]
    files: tuple[Path, ...]

    @classmethod
    def read(cls, files: Sequence[Path]) -> KnownHosts:
        """Read the files that exist; lines that cannot be read are passed over, as ssh does."""
        entries: list[HostKeyEntry] = []
        revoked: set[str] = set()
        for line in (line for file in files for line in _lines(file)):
            marker, _, rest = line.partition(" ")
            if marker == "@revoked" and (entry := _entry(rest.strip())):
                revoked.add(entry.key.get_base64())
            elif entry := _entry(line):
                entries.append(entry)
        return cls(tuple(entries), frozenset(revoked), tuple(files))

    def of(self, address: str, port: int) -> list[paramiko.PKey]:
        """The keys that are known for an address."""
        name = (address if port == 22 else f"[{address}]:{port}").lower()
        return [entry.key for entry in self.entries if _matches(name, entry.hostnames)]

    def prefer(self, client: paramiko.Transport, address: str, port: int) -> None:
        """Ask the server for a kind of key that we know it by, before any other kind."""
        options = client.get_security_options()
        names = [key.get_name() for key in self.of(address, port)]
        kinds = [k for name in names for k in (RSA_SIGNATURES if name == "ssh-rsa" else (name,))]
        known = [kind for kind in dict.fromkeys(kinds) if kind in options.key_types]
        rest = [kind for kind in options.key_types if kind not in known]
        options.key_types = (*known, *rest)

    def verify(self, name: str, address: str, port: int, key: paramiko.PKey) -> None:
        """Refuse a key that is not one of those known for this address."""
        where = ", ".join(map(str, self.files)) or "no known_hosts file"
        known = self.of(address, port)
        if key.get_base64() in self.revoked:
            raise HostKeyRefused(
                f"{name}: the key of {address} port {port} is revoked; nothing was sent to it",
                said=f"it shows {_shown(key)}",
                hint=f"a line @revoked in {where} says that this key is not to be trusted",
            )
        if not known:
            raise HostKeyRefused(
                f"{name}: the key of {address} port {port} is not known ({where})",
                said=f"it shows {_shown(key)}",
                hint=f"compare the fingerprint, then keep the key: {self._log_in(address, port)}",
            )
        if key.get_base64() not in {one.get_base64() for one in known}:
            raise HostKeyRefused(
                f"{name}: the key of {address} port {port} has CHANGED; nothing was sent to it",
                said=f"known: {', '.join(map(_shown, known))}\nshown: {_shown(key)}",
                hint=f"if the host was made anew, remove its old line from {where}",
            )

    def _log_in(self, address: str, port: int) -> str:
        first = f"-o UserKnownHostsFile={self.files[0]} " if self.files else ""
        return f"ssh {first}-p {port} {address}"


def fingerprint(key: paramiko.PKey) -> str:
    """The SHA256 fingerprint, as ssh-keygen prints it."""
    digest = hashlib.sha256(key.asbytes()).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _shown(key: paramiko.PKey) -> str:
    return f"{key.get_name()} {fingerprint(key)}"


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _entry(line: str) -> HostKeyEntry | None:
    try:
        entry = HostKeyEntry.from_line(line) if line and line[0] not in "#@" else None
    except Exception:  # paramiko raises several kinds for one bad line; ssh skips it too
        return None
    return entry if entry is not None and entry.key is not None else None


# sshd(8): names, patterns with * and ?, `!` before one that must not match, or hashed names.
def _matches(name: str, patterns: Sequence[str]) -> bool:
    found = False
    for pattern in patterns:
        if pattern.startswith("|1|"):
            found |= hmac.compare_digest(HostKeys.hash_host(name, pattern), pattern)
        elif pattern.startswith("!"):
            if _fits(name, pattern[1:]):
                return False
        else:
            found |= _fits(name, pattern)
    return found


# Brackets are no wildcards here: they hold the address where there is a port.
def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern.lower().replace("[", "[[]"))
