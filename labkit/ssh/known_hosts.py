"""The host keys that we know: OpenSSH's known_hosts files, read exactly as ssh reads them.

What is followed here is the code of OpenSSH: hostkeys_foreach() and check_host_key(), with their
less known sides. A host on another port may be known without the port. A certificate that does not
hold is looked up as the plain key it contains. `@revoked` counts for the names it gives.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase

from labkit.errors import HostKeyRefused
from labkit.ssh import certificates
from labkit.ssh.certificates import CERTIFICATE, HostCertificate, Malformed, fingerprint

# What an RSA key, which known_hosts calls ssh-rsa, is asked for as.
RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")
# ssh's order (ssh_config(5), HostKeyAlgorithms), without those that paramiko cannot verify.
PLAIN = (
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
    *RSA_SIGNATURES,
)  # fmt: skip
ALGORITHMS = (*(f"{kind}{CERTIFICATE}" for kind in PLAIN), *PLAIN)
REVOCATION, AUTHORITY = "@revoked", "@cert-authority"
BLANK = " \t"
WORD = re.compile(f"([^{BLANK}]*)[{BLANK}]*")
# OpenSSH compares no more than this of one name.
NAME_BYTES = 1023
SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)
# What b64_pton() passes over.
PASSED_OVER = str.maketrans("", "", "\r\v\f")


class KeyStatus(Enum):
    """The verdict of the files on a key that a host shows."""

    KNOWN = "known"
    NEW = "not known"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True)
class KeyLine:
    """A line that names the host: where it is, its marker, and its key."""

    where: str
    """The file and the line number, in the form that compilers use."""
    marker: str
    key: bytes


@dataclass(frozen=True)
class Judgement:
    """The status of a key, the lines that decided it, and what is wrong with a certificate."""

    status: KeyStatus
    lines: tuple[KeyLine, ...] = ()
    certificate: str = ""

    @property
    def places(self) -> str:
        """The places of those lines."""
        return ", ".join(line.where for line in self.lines)


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
        return self.alias or _lower(place)

    @property
    def second(self) -> str:
        """The name without a port: looked for when the first is unknown, and in certificates."""
        return self.alias or _lower(self.address)


@dataclass(frozen=True)
class KnownHosts:
    """The lines of some known_hosts files, and how a key is judged by them."""

    files: tuple[Path, ...]
    text: tuple[tuple[str, str], ...]
    """Each line, behind its place."""
    _of: dict[str, tuple[KeyLine, ...]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, files: Sequence[Path]) -> KnownHosts:
        """Read the files that exist."""
        text = [(f"{file}:{n}", line) for file in files for n, line in enumerate(_lines(file), 1)]
        return cls(tuple(files), tuple(text))

    def of(self, name: str) -> tuple[KeyLine, ...]:
        """The lines that give a name, whole and readable."""
        if name not in self._of:
            key = name.encode("utf-8", "surrogateescape").decode("latin-1")
            self._of[name] = tuple(line for line in self._find(key) if isinstance(line, KeyLine))
        return self._of[name]

    def bad(self) -> list[str]:
        """The lines that are passed over, as ssh does, and why."""
        return [line for line in self._find(None) if isinstance(line, str)]

    def algorithms(self, name: Name) -> tuple[str, ...]:
        """The algorithms to ask the server for; the kinds of key that we know it by come first."""
        # As order_hostkeyalgs() of OpenSSH: it decides which of its keys a server shows.
        lines = self.of(name.first)
        kinds = {certificates.kind_of(line.key) for line in lines if not line.marker}
        if PLAIN[0] in kinds:
            return ALGORITHMS
        has_authority = any(line.marker == AUTHORITY for line in lines)

        def is_unknown(algorithm: str) -> bool:
            is_certified = has_authority and algorithm.endswith(CERTIFICATE)
            return not is_certified and _bare(certificates.plain(algorithm)) not in kinds

        return tuple(sorted(ALGORITHMS, key=is_unknown))

    def judge(self, name: Name, key: bytes, moment: float | None = None) -> Judgement:
        """The verdict of the files on the key or certificate that a host shows."""
        return self._judge(name, name.first, key, time.time() if moment is None else moment)

    def verify(self, host: str, name: Name, key: bytes, trust: str = "") -> None:
        """Refuse a key that is not known; `trust` is the command that would make it so."""
        if not _is_sound(key):
            raise HostKeyRefused(
                f"{host}: {name.address} port {name.port} shows a broken key; nothing was sent",
                said="it cannot be read, or its certificate is not signed by whom it names",
                hint="check that this is the host, and that its HostCertificate fits its key",
            )
        judgement = self.judge(name, key)
        if judgement.status is not KeyStatus.KNOWN:
            raise self.refusal(host, name, key, judgement, trust)

    def refusal(
        self, title: str, name: Name, key: bytes, judgement: Judgement, trust: str = ""
    ) -> HostKeyRefused:
        """The error for a key that is not known, revoked or another than the known one."""
        host = f"{title}: the key of {name.address} port {name.port}"
        doubt = f" (its certificate: {judgement.certificate})" if judgement.certificate else ""
        words = f"{_describe(key)}{doubt}"
        if judgement.status is KeyStatus.REVOKED:
            return HostKeyRefused(
                f"{host} is revoked; nothing was sent to it",
                said=f"shown: {words}",
                hint=f"{judgement.places} says that this key is not to be trusted",
            )
        if judgement.status is KeyStatus.CHANGED:
            known = (f"known: {_describe(line.key)} ({line.where})" for line in judgement.lines[:2])
            return HostKeyRefused(
                f"{host} has CHANGED; nothing was sent to it",
                said="\n".join([*known, f"shown: {words}"]),
                hint="somebody may intercept this; if the host was reinstalled, compare its"
                f" fingerprint and remove {judgement.places}",
            )
        file = f"-o UserKnownHostsFile={self.files[0]} " if self.files else ""
        command = trust or f"ssh {file}-p {name.port} {name.address}"
        error = HostKeyRefused(
            f"{host} is not known ({', '.join(map(str, self.files)) or 'no known_hosts file'})",
            said="\n".join([*(f"passed over {line}" for line in self.bad()[:2]),
                            f"it shows {words}"]),
            hint=f"compare the fingerprint, then keep the key: {command}",
        )  # fmt: skip
        error.command = command
        return error

    def _judge(self, name: Name, looked_for: str, key: bytes, moment: float) -> Judgement:
        certificate = _certificate(key)
        status = _status(self.of(looked_for), key, certificate)
        reason = ""
        if status.status is KeyStatus.KNOWN and certificate:
            reason = certificate.why_not(name.second, moment)
        if status.status is KeyStatus.REVOKED or (status.status is KeyStatus.KNOWN and not reason):
            return status
        if status.status is KeyStatus.NEW and looked_for != name.second:
            without_port = self._judge(name, name.second, key, moment)
            if without_port.status is KeyStatus.KNOWN:
                return without_port
        if certificate:
            plainly = self._judge(name, looked_for, certificate.key, moment)
            return Judgement(plainly.status, plainly.lines, plainly.certificate or reason)
        return status

    # The lines about a name, or about any; of those that say nothing, why.
    def _find(self, name: str | None) -> Iterator[KeyLine | str]:
        for place, line in self.text:
            try:
                if parts := _read_line(line, name):
                    yield KeyLine(place, *parts)
            except Malformed as error:
                yield f"{place}: {error}"


def _describe(key: bytes) -> str:
    return f"{certificates.kind_of(key)} {fingerprint(key)}"


# ssh checks the signature of every certificate it is shown, also of those it has no use for.
def _is_sound(key: bytes) -> bool:
    try:
        certificates.check_key(key)
        certificate = _certificate(key)
    except Malformed:
        return False
    return certificate is None or not certificate.checkable or certificate.is_signed()


def _certificate(key: bytes) -> HostCertificate | None:
    is_certificate = certificates.kind_of(key).endswith(CERTIFICATE)
    return HostCertificate.read(key) if is_certificate else None


# As check_hostkeys_by_key_or_type(): the last of several other keys is the one to name.
def _status(lines: Sequence[KeyLine], key: bytes, certificate: HostCertificate | None) -> Judgement:
    keys = {certificate.key, certificate.authority} if certificate else {key}
    if revocations := tuple(
        line
        for line in lines
        if line.marker == REVOCATION and certificates.public(line.key) in keys
    ):
        return Judgement(KeyStatus.REVOKED, revocations)
    marker, key_sought = (AUTHORITY, certificate.authority) if certificate else ("", key)
    rivals = tuple(line for line in lines if line.marker == marker)
    if matches := tuple(line for line in rivals if line.key == key_sought):
        return Judgement(KeyStatus.KNOWN, matches[:1])
    # Another authority proves nothing against this one.
    if rivals and not marker:
        return Judgement(KeyStatus.CHANGED, rivals)
    return Judgement(KeyStatus.NEW)


# --- one line: whom it names, and the key that it gives (sshd(8)) -----------------------------


# Each ends with \n alone or, as ssh is written in C, at a zero byte.
def _lines(file: Path) -> list[str]:
    try:
        text = file.read_bytes().decode("latin-1")
    except OSError:
        return []
    return [line.split("\0")[0] for line in text.split("\n")]


# The marker and the key; None for a comment, or when it is about another name.
def _read_line(line: str, name: str | None) -> tuple[str, bytes] | None:
    tail = line.lstrip(BLANK)
    if not tail or tail[0] == "#":
        return None
    marker, tail = _marker(tail)
    names, tail = _word(tail)
    if name is not None and not _gives(names, name):
        return None
    if names.startswith("|") and not _salt(names):
        raise Malformed("a hashed name of another form")
    if not tail or tail[0] == "#":
        raise Malformed("ends before the kind of key")
    kind, tail = _word(tail)
    blob = _decode(_word(tail)[0])
    if _bare(kind) != _bare(certificates.check_key(blob)):
        raise Malformed(f"says {kind}, but its key is another kind")
    return marker, blob


# check_markers() looks for a space first: a tab ends a marker only in a line without spaces.
def _marker(line: str) -> tuple[str, str]:
    if line[0] != "@":
        return "", line
    marker, blank, tail = line.partition(" " if " " in line else "\t")
    tail = tail.lstrip(BLANK)
    if marker not in (REVOCATION, AUTHORITY) or not blank or tail.startswith("@"):
        raise Malformed(f"no known marker: {marker[:32]}")
    return marker, tail


def _word(text: str) -> tuple[str, str]:
    match = WORD.match(text)
    assert match is not None
    return match[1], text[match.end() :]


# An RSA key may be called by the name of a signature.
def _bare(kind: str) -> str:
    return "ssh-rsa" if kind in RSA_SIGNATURES else kind


# b64_pton() takes nothing but whole groups of four.
def _decode(text: str) -> bytes:
    code = text.translate(PASSED_OVER)
    try:
        blob = binascii.a2b_base64(code, strict_mode=True)
    except ValueError:
        blob = b""
    if not blob or base64.b64encode(blob).decode() != code:
        raise Malformed("its key is not base64")
    return blob


# sshd(8): names, patterns with * and ?, `!` before one that must not match, or one hashed name.
def _gives(names: str, name: str) -> bool:
    if names.startswith("|"):
        return hmac.compare_digest(_hash(name, names).encode("latin-1"), names.encode("latin-1"))
    gives = False
    for pattern in names.split(","):
        plain = pattern.removeprefix("!")
        if len(plain) > NAME_BYTES:
            return False
        if _fits(name, _lower(plain)):
            if pattern.startswith("!"):
                return False
            gives = True
    return gives


# Brackets are no wildcards here: they hold the address where there is a port.
def _fits(name: str, pattern: str) -> bool:
    if "*" not in pattern and "?" not in pattern:
        return name == pattern
    return fnmatchcase(name, pattern.replace("[", "[[]"))


# ssh knows no other letters than these.
def _lower(text: str) -> str:
    return text.translate(SMALL)


def _salt(names: str) -> bytes:
    parts = names.split("|")
    try:
        salt = base64.b64decode(parts[2], validate=True) if len(parts) == 4 else b""
    except ValueError:
        return b""
    return salt if parts[:2] == ["", "1"] and len(salt) == 20 else b""


def _hash(name: str, names: str) -> str:
    if not (salt := _salt(names)):
        return ""
    digest = hmac.digest(salt, name.encode("latin-1", "replace"), hashlib.sha1)
    return "|".join(["", "1", *(base64.b64encode(part).decode() for part in (salt, digest))])
