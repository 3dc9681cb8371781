"""A hundred thousand files, ten thousand certificates: none makes known what it lacks."""

import base64
import re
import time
from collections import Counter
from random import Random

import pytest
from agreed import reading
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import HostKeyRefused
from labkit.ssh import certificates
from labkit.ssh.known_hosts import KeyStatus, Name

TRUE = base64.b64encode(
    certificates.packed(b"ssh-ed25519") + certificates.packed(b"\x07" * 32)
).decode()
BLOB = base64.b64decode(TRUE)
FALSE = base64.b64encode(
    certificates.packed(b"ssh-ed25519") + certificates.packed(b"\x09" * 32)
).decode()
WORDS = [
    "@revoked", "@cert-authority", "@", "box1", "BOX1", "box*", "!box1", "?ox1", "*", ",", "!", "#",
    "[box1]:22", "[", "|1|", "|1|AAAA|AAAA", "ssh-ed25519", "rsa-sha2-512", "ssh-rsa", TRUE, FALSE,
    TRUE[:-4], TRUE + "AAAA", TRUE + "=", "\r", "\0", "\t", " ", "\n", "\v", "\x85", "\xff",
    f"box1 ssh-ed25519 {TRUE}", f"@revoked * ssh-ed25519 {TRUE}", f"* ssh-ed25519 {FALSE}", "",
]  # fmt: skip
# Each example is a seed of this many cases, for drawing them one by one takes a minute.
CASES_EACH = 100
FUZZ = settings(max_examples=1000, database=None)
SEEDS = st.integers(0, 2**64)


def a_file(random):
    words = [
        random.choice(WORDS) if random.random() < 0.9 else chr(random.randrange(0x300))
        for _ in range(random.randrange(14))
    ]
    return random.choice(["", " ", " ", "\n"]).join(words)


@pytest.mark.when_changed("labkit/ssh/")
@pytest.mark.slow
@FUZZ
@given(SEEDS)
def test_no_file_makes_known_what_it_does_not_hold(seed):
    random = Random(seed)
    seen = Counter(judged(a_file(random)) for _ in range(CASES_EACH))
    assert seen[KeyStatus.KNOWN] < CASES_EACH


def judged(text):
    read = reading(text)
    read.bad()
    read.algorithms(Name("box1"))
    found = read.judge(Name("box1"), BLOB, 0.0).status
    lines = [word.split("\0")[0] for word in text.split("\n")]
    if found is KeyStatus.KNOWN:
        # A line holds the whole key, under a name that may fit, and it is neither marked ...
        names = r"[ \t]*(?![@#])[^ \t]*(box|BOX|\*|\?)[^ \t]*[ \t]"
        assert any(re.match(f"{names}.*{TRUE}", line, re.DOTALL) for line in lines), text
        # ... nor is there one that plainly revokes it.
        assert f"@revoked * ssh-ed25519 {TRUE}" not in lines, text
    if f"box1 ssh-ed25519 {TRUE}" in lines and "@" not in text:
        assert found is KeyStatus.KNOWN, text
    return found


def certificate():
    parts = [b"ssh-ed25519-cert-v01@openssh.com", b"nonce", b"\x07" * 32]
    blob = b"".join(map(certificates.packed, parts)) + bytes(8) + b"\0\0\0\x02"
    blob += certificates.packed(b"id") + certificates.packed(certificates.packed(b"box1"))
    blob += bytes(8) + b"\xff" * 8 + certificates.packed(b"") * 3
    authority = certificates.packed(b"ssh-ed25519") + certificates.packed(b"\x09" * 32)
    signature = certificates.packed(b"ssh-ed25519") + certificates.packed(b"\x01" * 64)
    return blob + certificates.packed(authority) + certificates.packed(signature)


@pytest.mark.slow
@FUZZ
@given(SEEDS)
def test_no_bytes_are_taken_for_a_certificate_that_nobody_signed(seed):
    random = Random(seed)
    read = reading(f"@cert-authority * ssh-ed25519 {FALSE}")
    for _ in range(CASES_EACH // 10):
        blob = bytearray(certificate())
        for _ in range(random.randrange(5)):
            blob[random.randrange(len(blob))] = random.randrange(256)
        blob = bytes(blob[: random.choice([len(blob), random.randrange(len(blob))])])
        with pytest.raises(HostKeyRefused):
            read.verify("box1", Name("box1"), blob + bytes(random.choice([0, 0, 3])))


def test_reading_is_quick_however_a_pattern_is_made():
    hostile = ",".join(["*a" * 500 + "b"] * 20)
    begun = time.process_time()
    reading("\n".join([f"{hostile} ssh-ed25519 {TRUE}"] * 20)).judge(Name("a" * 200), BLOB, 0.0)
    assert time.process_time() - begun < 5
