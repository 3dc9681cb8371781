"""Public keys and host certificates as they travel: read strictly, signatures verified.

The layouts are those of RFC 4253, RFC 5656, RFC 8709 and OpenSSH's PROTOCOL.certkeys.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import paramiko

CERTIFICATE = "-cert-v01@openssh.com"
HOST = 2
# OpenSSH knows no smaller RSA key, and no signature of an authority that is made with SHA-1.
RSA_BITS = 1024
SHA1 = "ssh-rsa"
# What follows the name of each kind in a public key: so many strings.
PARTS = {
    "ssh-ed25519": 1, "ssh-rsa": 2, "ssh-dss": 4,
    "ecdsa-sha2-nistp256": 2, "ecdsa-sha2-nistp384": 2, "ecdsa-sha2-nistp521": 2,
    "sk-ssh-ed25519@openssh.com": 2, "sk-ecdsa-sha2-nistp256@openssh.com": 3,
}  # fmt: skip


class Malformed(ValueError):
    """Bytes that are no key and no certificate."""


class _Reader:
    """Takes strings and numbers off the front of some bytes, and never more than are there."""

    def __init__(self, content: bytes) -> None:
        self.left = content

    def take(self, size: int) -> bytes:
        if size > len(self.left):
            raise Malformed("ends too early")
        part, self.left = self.left[:size], self.left[size:]
        return part

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def string(self) -> bytes:
        return self.take(self.number(4))

    def texts(self) -> Iterator[str]:
        while self.left:
            yield self.string().decode("utf-8", "replace")

    def end(self) -> None:
        if self.left:
            raise Malformed("goes on after its end")


def packed(text: bytes) -> bytes:
    """A string as SSH sends it: its length first."""
    return len(text).to_bytes(4, "big") + text


def kind_of(blob: bytes) -> str:
    """The kind that a key or certificate says it is of, such as `ssh-ed25519`."""
    return _Reader(blob).string().decode("utf-8", "replace")


def plain(kind: str) -> str:
    """The kind of key within a kind of certificate."""
    if not kind.endswith(CERTIFICATE):
        return kind
    bare = kind.removesuffix(CERTIFICATE)
    return f"{bare}@openssh.com" if bare.startswith("sk-") else bare


def check_key(blob: bytes) -> str:
    """The kind of a whole public key or certificate; raises `Malformed` for anything else."""
    kind = kind_of(blob)
    if kind.endswith(CERTIFICATE):
        HostCertificate.read(blob)
        return kind
    reader = _Reader(blob)
    reader.string()
    _key_parts(kind, reader)
    reader.end()
    return kind


def public(blob: bytes) -> bytes:
    """The key that some bytes are, or that they certify."""
    return HostCertificate.read(blob).key if kind_of(blob).endswith(CERTIFICATE) else blob


def fingerprint(blob: bytes) -> str:
    """The SHA256 fingerprint of a key, as ssh-keygen prints it; of the key in a certificate."""
    blob = public(blob)
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


@dataclass(frozen=True)
class HostCertificate:
    """Says that `authority` vouches for `key` under `names`, from one second to another."""

    key: bytes
    authority: bytes
    names: tuple[str, ...]
    begins: int
    ends: int
    role: int
    critical: tuple[str, ...]
    signature: bytes
    signed: bytes

    @classmethod
    def read(cls, blob: bytes) -> HostCertificate:
        """The certificate in some bytes, its signature not yet looked at."""
        kind, reader = plain(kind_of(blob)), _Reader(blob)
        reader.string()
        reader.string()  # the nonce
        key = b"".join(map(packed, (kind.encode(), *_key_parts(kind, reader))))
        reader.number(8)  # the serial number
        role = reader.number(4)
        reader.string()  # the authority's name for the key
        names = tuple(_Reader(reader.string()).texts())
        begins, ends = reader.number(8), reader.number(8)
        critical = _options(reader.string())
        _options(reader.string())
        reader.string()  # reserved
        authority = reader.string()
        content = blob.removesuffix(reader.left)
        signature = reader.string()
        reader.end()
        if check_key(authority).endswith(CERTIFICATE) or role not in (1, HOST):
            raise Malformed("is of no known role, or signed by a certificate")
        return cls(key, authority, names, begins, ends, role, critical, signature, content)

    @property
    def checkable(self) -> bool:
        """Whether we can check the signature: not that of a security key."""
        return not kind_of(self.authority).startswith("sk-")

    def is_signed(self) -> bool:
        """Whether the authority has really signed this."""
        try:
            key = paramiko.PKey.from_type_string(kind_of(self.authority), self.authority)
            return bool(key.verify_ssh_sig(self.signed, paramiko.Message(self.signature)))
        except Exception:  # whatever a key or a signature made by a stranger brings about
            return False

    def why_not(self, name: str, moment: float) -> str:
        """Reason why this does not vouch for a host at the time `moment`; empty if it does.

        A certificate without names is good for all hosts (ssh-keygen(1), -n).
        """
        if self.role != HOST:
            return "it is a user's certificate, not a host's"
        if not self.begins <= moment:
            return "it is not valid yet"
        if not moment < self.ends:
            return "it has expired"
        if self.names and name not in self.names:
            return f"it is for {', '.join(self.names)}, not for {name}"
        if self.critical:
            return f"it has critical options that labkit does not know: {', '.join(self.critical)}"
        if kind_of(self.signature) == SHA1:
            return "it is signed with SHA-1"
        if not self.checkable:
            return "its authority is a security key, whose signatures labkit cannot check"
        return ""


def _key_parts(kind: str, reader: _Reader) -> list[bytes]:
    if kind not in PARTS:
        raise Malformed(f"is of no known kind: {kind}")
    parts, bare = [reader.string() for _ in range(PARTS[kind])], kind.removesuffix("@openssh.com")
    if kind.endswith("ed25519") and len(parts[0]) != 32:
        raise Malformed("is not an ed25519 key")
    if kind == "ssh-rsa" and int.from_bytes(parts[1], "big").bit_length() < RSA_BITS:
        raise Malformed(f"is an RSA key of less than {RSA_BITS} bits")
    if "ecdsa" in kind and not bare.endswith("-" + parts[0].decode("ascii", "replace")):
        raise Malformed("is on another curve than it says")
    return parts


# The names of options, each of which has a value.
def _options(block: bytes) -> tuple[str, ...]:
    names_and_values = tuple(_Reader(block).texts())
    if len(names_and_values) % 2:
        raise Malformed("ends too early")
    return names_and_values[::2]
