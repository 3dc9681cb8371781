"""One line of a known_hosts file: whom it names, and the key that it gives (sshd(8))."""

import base64
import binascii
import hashlib
import hmac
import re
from fnmatch import fnmatchcase
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase

from labkit.ssh import certificates
from labkit.ssh.certificates import Malformed

REVOCATION = "@revoked"
AUTHORITY = "@cert-authority"
BLANK = " \t"
WORD = re.compile(f"([^{BLANK}]*)[{BLANK}]*")
# OpenSSH compares no more than this of one name.
NAME_BYTES = 1023
SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)
# What b64_pton() passes over.
PASSED_OVER = str.maketrans("", "", "\r\v\f")
# What an RSA key, which known_hosts calls ssh-rsa, is asked for as.
RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")


def lines_of(file: Path) -> list[str]:
    """The lines of a file: each ends with \\n alone or, as ssh is written in C, at a zero byte."""
    try:
        text = file.read_bytes().decode("latin-1")
    except OSError:
        return []
    return [line.split("\0")[0] for line in text.split("\n")]


def read_line(line: str, name: str | None) -> tuple[str, bytes] | None:
    """The marker and the key of a line; None for a comment, or when it is about another name."""
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
    if bare(kind) != bare(certificates.check_key(blob)):
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


def bare(kind: str) -> str:
    """The kind of key; an RSA key may be called by the name of a signature."""
    return "ssh-rsa" if kind in RSA_SIGNATURES else kind


# b64_pton() takes nothing but whole groups of four.
def _decode(text: str) -> bytes:
    code = text.translate(PASSED_OVER)
    try:
        blob = binascii.a2b_base64(code, strict_mode=True)
    except (binascii.Error, ValueError):
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
        if _fits(name, lower(plain)):
            if pattern.startswith("!"):
                return False
            gives = True
    return gives


# Brackets are no wildcards here: they hold the address where there is a port.
def _fits(name: str, pattern: str) -> bool:
    if "*" not in pattern and "?" not in pattern:
        return name == pattern
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def lower(text: str) -> str:
    """In small letters; ssh knows no other letters than these."""
    return text.translate(SMALL)


def _salt(names: str) -> bytes:
    parts = names.split("|")
    try:
        salt = base64.b64decode(parts[2], validate=True) if len(parts) == 4 else b""
    except (binascii.Error, ValueError):
        return b""
    return salt if parts[:2] == ["", "1"] and len(salt) == 20 else b""


def _hash(name: str, names: str) -> str:
    salt = _salt(names)
    digest = hmac.new(salt, name.encode("latin-1", "replace"), hashlib.sha1).digest()
    first, second = (base64.b64encode(part).decode() for part in (salt, digest))
    return f"|1|{first}|{second}" if salt else ""
