"""The host keys that we know: OpenSSH's known_hosts files, read exactly as ssh reads them.

What is followed here is the code of OpenSSH: hostkeys_foreach() and check_host_key(), with their
less known sides. A host on another port may be known without the port. A certificate that does not
hold is looked up as the plain key it contains. `@revoked` counts for the names it gives.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from labkit.errors import HostKeyRefused, LabkitError
from labkit.ssh import certificates
from labkit.ssh._known_lines import (
    AUTHORITY,
    REVOCATION,
    RSA_SIGNATURES,
    bare,
    lines_of,
    lower,
    read_line,
)
from labkit.ssh.certificates import CERTIFICATE, HostCertificate, Malformed, fingerprint

# ssh's order (ssh_config(5), HostKeyAlgorithms), without those that paramiko cannot verify.
PLAIN = (
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
    *RSA_SIGNATURES,
)  # fmt: skip
ALGORITHMS = (*(f"{kind}{CERTIFICATE}" for kind in PLAIN), *PLAIN)


class KeyStatus(Enum):
    """The verdict of the files on a key that a host shows."""

    KNOWN = "known"
    NEW = "not known"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True)
class KeyLine:
    """A line that names the host: where it is, its marker, and its key."""

    file: Path
    number: int
    marker: str
    key: bytes

    @property
    def where(self) -> str:
        """The file and the line number, in the form that compilers use."""
        return f"{self.file}:{self.number}"


@dataclass(frozen=True)
class Judgement:
    """The status of a key, the lines that decided it, and what is wrong with a certificate."""

    status: KeyStatus
    lines: tuple[KeyLine, ...] = ()
    certificate: str = ""


@dataclass(frozen=True)
class Name:
    """The name of a host in known_hosts: its address and port, or its HostKeyAlias."""

    address: str
    port: int = 22
    alias: str = ""

    @property
    def first(self) -> str:
        """The name that is looked for."""
        place = self.address if self.port == 22 else f"[{self.address}]:{self.port}"
        return self.alias or lower(place)

    @property
    def second(self) -> str:
        """The name that is looked for when the first is unknown; empty when there is none."""
        return "" if self.alias or self.port == 22 else lower(self.address)

    @property
    def principal(self) -> str:
        """The name that a certificate must hold."""
        return self.alias or lower(self.address)


@dataclass(frozen=True)
class KnownHosts:
    """The lines of some known_hosts files, and how a key is judged by them."""

    files: tuple[Path, ...]
    text: tuple[tuple[Path, int, str], ...]
    _of: dict[str, tuple[KeyLine, ...]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, files: Sequence[Path]) -> KnownHosts:
        """Read the files that exist."""
        text = [(file, n, line) for file in files for n, line in enumerate(lines_of(file), 1)]
        return cls(tuple(files), tuple(text))

    def of(self, name: str) -> tuple[KeyLine, ...]:
        """The lines that give a name, whole and readable."""
        if name not in self._of:
            key = name.encode("utf-8", "surrogateescape").decode("latin-1")
            self._of[name] = tuple(self._find(key, []))
        return self._of[name]

    def bad(self) -> list[str]:
        """The lines that are passed over, as ssh does, and why."""
        bad = list[str]()
        _ = [*self._find(None, bad)]
        return bad

    def algorithms(self, name: Name) -> tuple[str, ...]:
        """The algorithms to ask the server for; the kinds of key that we know it by come first."""
        # As order_hostkeyalgs() of OpenSSH: it decides which of its keys a server shows.
        lines = self.of(name.first)
        kinds = {certificates.kind_of(line.key) for line in lines if not line.marker}
        if PLAIN[0] in kinds:
            return ALGORITHMS
        has_authority = any(line.marker == AUTHORITY for line in lines)
        first_algorithms = [
            algorithm
            for algorithm in ALGORITHMS
            if bare(certificates.plain(algorithm)) in kinds
            or (has_authority and algorithm.endswith(CERTIFICATE))
        ]
        return (*first_algorithms, *(a for a in ALGORITHMS if a not in first_algorithms))

    def judge(self, name: Name, key: bytes, moment: float | None = None) -> Judgement:
        """The verdict of the files on the key or certificate that a host shows."""
        return self._judge(name, name.first, key, time.time() if moment is None else moment)

    def verify(self, host: str, name: Name, key: bytes, trust: str = "") -> None:
        """Refuse a key that is not known; `trust` is the command that would make it so."""
        if not _sound(key):
            raise HostKeyRefused(
                f"{host}: {name.address} port {name.port} shows a broken key; nothing was sent",
                said="it cannot be read, or its certificate is not signed by whom it names",
                hint="check that this is the host, and that its HostCertificate fits its key",
            )
        judgement = self.judge(name, key)
        if judgement.status is not KeyStatus.KNOWN:
            raise refusal(host, name, key, judgement, self, trust)

    def _judge(self, name: Name, looked_for: str, key: bytes, moment: float) -> Judgement:
        certificate = _certificate(key)
        status = _status(self.of(looked_for), key, certificate)
        reason = ""
        if status.status is KeyStatus.KNOWN and certificate:
            reason = certificate.why_not(name.principal, moment)
        if status.status is KeyStatus.REVOKED or (status.status is KeyStatus.KNOWN and not reason):
            return status
        if status.status is KeyStatus.NEW and name.second and looked_for != name.second:
            without_port = self._judge(name, name.second, key, moment)
            if without_port.status is KeyStatus.KNOWN:
                return without_port
        if certificate:
            plainly = self._judge(name, looked_for, certificate.key, moment)
            return Judgement(plainly.status, plainly.lines, plainly.certificate or reason)
        return status

    # The lines that say nothing are put into `bad`.
    def _find(self, name: str | None, bad: list[str]) -> Iterator[KeyLine]:
        for file, number, line in self.text:
            try:
                parts = read_line(line, name)
            except Malformed as error:
                bad.append(f"{file}:{number}: {error}")
            else:
                if parts:
                    yield KeyLine(file, number, *parts)


def refusal(
    title: str, name: Name, key: bytes, judgement: Judgement, hosts: KnownHosts, trust: str = ""
) -> HostKeyRefused:
    """The error for a key that is not known, revoked or another than the known one."""
    places = ", ".join(map(str, hosts.files)) or "no known_hosts file"
    host = f"{title}: the key of {name.address} port {name.port}"
    words = (
        f"{said(key)}{f' (its certificate: {judgement.certificate})' * bool(judgement.certificate)}"
    )
    if judgement.status is KeyStatus.REVOKED:
        return HostKeyRefused(
            f"{host} is revoked; nothing was sent to it",
            said=f"shown: {words}",
            hint=f"{_places(judgement)} says that this key is not to be trusted",
        )
    if judgement.status is KeyStatus.CHANGED:
        known = (f"known: {said(line.key)} ({line.where})" for line in judgement.lines[:2])
        return HostKeyRefused(
            f"{host} has CHANGED; nothing was sent to it",
            said="\n".join([*known, f"shown: {words}"]),
            hint="somebody may intercept this; if the host was reinstalled, compare its"
            f" fingerprint and remove {_places(judgement)}",
        )
    return HostKeyRefused(
        f"{host} is not known ({places})",
        said="\n".join([*(f"passed over {bad}" for bad in hosts.bad()[:2]), f"it shows {words}"]),
        hint=f"compare the fingerprint, then keep the key: {trust or _by_hand(name, hosts.files)}",
    )


def said(key: bytes) -> str:
    """A key for people: its kind and its fingerprint."""
    return f"{certificates.kind_of(key)} {fingerprint(key)}"


def _places(judgement: Judgement) -> str:
    return ", ".join(line.where for line in judgement.lines)


def _by_hand(name: Name, files: Sequence[Path]) -> str:
    first = f"-o UserKnownHostsFile={files[0]} " if files else ""
    return f"ssh {first}-p {name.port} {name.address}"


# ssh checks the signature of every certificate it is shown, also of those it has no use for.
def _sound(key: bytes) -> bool:
    try:
        certificates.check_key(key)
        certificate = _certificate(key)
    except Malformed:
        return False
    return certificate is None or not certificate.checkable or certificate.is_signed()


def _certificate(key: bytes) -> HostCertificate | None:
    if not certificates.kind_of(key).endswith(CERTIFICATE):
        return None
    return HostCertificate.read(key)


# As check_hostkeys_by_key_or_type(): the last of several other keys is the one to name.
def _status(lines: Sequence[KeyLine], key: bytes, certificate: HostCertificate | None) -> Judgement:
    keys = {certificate.key, certificate.authority} if certificate else {key}
    revocations = tuple(
        line
        for line in lines
        if line.marker == REVOCATION and certificates.public(line.key) in keys
    )
    if revocations:
        return Judgement(KeyStatus.REVOKED, revocations)
    marker, key_sought = (AUTHORITY, certificate.authority) if certificate else ("", key)
    rivals = tuple(line for line in lines if line.marker == marker)
    matches = tuple(line for line in rivals if line.key == key_sought)
    if matches:
        return Judgement(KeyStatus.KNOWN, matches[:1])
    # Another authority proves nothing against this one.
    return (
        Judgement(KeyStatus.CHANGED, rivals) if rivals and not marker else Judgement(KeyStatus.NEW)
    )


class NotKept(LabkitError):
    """A line could not be written down."""


def append(file: Path, *lines: str) -> None:
    """Add lines at the end of a file that only its owner may read, and wait for the disk."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "rb+") as stream:
            # Somebody's editor may have left the last line without its end.
            size = os.fstat(stream.fileno()).st_size
            end = b"\n" if size and os.pread(stream.fileno(), 1, size - 1) != b"\n" else b""
            # One write: whoever else adds a line at this moment does so before it or after it.
            stream.write(end + "".join(f"{line}\n" for line in lines).encode())
            stream.flush()
            os.fsync(stream.fileno())
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise NotKept(f"cannot write {file}", said=str(error)) from error
