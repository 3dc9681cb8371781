"""govmomi's vcsim for tests, or the reason why this machine has none."""

import re
import subprocess
from contextlib import contextmanager

import pytest
from waiting import alive

from labkit.programs import simulator


def simulator_or_skip():
    """The program."""
    if simulator.path() is None:
        pytest.skip(f"no simulator of vCenter; to get it: {simulator.REMEDY}")
    return simulator.vcsim()


PROGRAMS = ("openssl",)
SERVES = re.compile(r"GOVC_URL=https://[^@]*@127\.0\.0\.1:(\d+)/sdk")


def certified(folder):
    """The folder, with a certificate for this machine in `cert` and its key in `key`."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(folder / "key"), "-out", str(folder / "cert")],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


@contextmanager
def simulating(certificate, folder, *words):
    """The simulator with these options, until the block ends; its port."""
    program = folder / "vcsim"
    program.write_bytes(simulator_or_skip())
    program.chmod(0o755)
    begin = [program, *words, "-l", "127.0.0.1:0", "-username", "user", "-password", "pass"]
    begin += ["-tlscert", str(certificate / "cert"), "-tlskey", str(certificate / "key")]
    with alive(begin, stdout=subprocess.PIPE, text=True) as vcsim:
        yield next(int(hit[1]) for line in vcsim.stdout if (hit := SERVES.search(line)))
