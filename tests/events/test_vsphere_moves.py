"""Machines of vCenter move by its API; what answers is a simulator, which copies nothing."""

import json
import os
import re
import shutil
import subprocess

import pytest

from labkit.errors import BadInput, HostError, LoginRefused, Unknown
from labkit.event import Say
from labkit.events._vsphere import connected, ended_well, relocated

pytestmark = pytest.mark.slow
PROGRAMS = ("openssl",)

SIMULATOR = "github.com/vmware/govmomi/vcsim@v0.46.3"
BUILD_SECONDS = 580
MOVE_MS = 1500
SERVES = re.compile(r"GOVC_URL=https://[^@]*@127\.0\.0\.1:(\d+)/sdk")


@pytest.fixture(scope="module")
def vcsim(tmp_path_factory):
    """The simulator: that of this machine, else built by Go, whose own caches keep its parts."""
    if there := shutil.which("vcsim"):
        return there
    if not (go := shutil.which("go")):
        pytest.skip(f"no simulator of vCenter; to get it: Go, then go install {SIMULATOR}")
    folder = tmp_path_factory.mktemp("vcsim")
    built = subprocess.run(
        [go, "install", SIMULATOR], env={**os.environ, "GOBIN": str(folder)},
        capture_output=True, text=True, timeout=BUILD_SECONDS,
    )  # fmt: skip
    if built.returncode:
        pytest.skip(f"Go cannot build {SIMULATOR}: {built.stderr.strip()[-300:]}")
    return str(folder / "vcsim")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vcenter")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(folder / "key"), "-out", str(folder / "cert")],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def port(vcsim, certificate):
    slowly = f"RelocateVm:{MOVE_MS},LockHandoff:0"
    words = [vcsim, "-method-delay", slowly, "-l", "127.0.0.1:0", "-cluster", "1",
             "-host", "2", "-standalone-host", "0",
             "-vm", "1", "-username", "user", "-password", "pass", "-tlscert",
             str(certificate / "cert"), "-tlskey", str(certificate / "key")]  # fmt: skip
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as vcsim:
        try:
            yield next(int(found[1]) for line in vcsim.stdout if (found := SERVES.search(line)))
        finally:
            vcsim.kill()


@pytest.fixture
def session(port, certificate):
    trusted = str(certificate / "cert")
    with connected("127.0.0.1", "user", "pass", port=port, trusted=trusted) as found:
        yield found


def machine(session):
    center = session.RetrieveContent().rootFolder.childEntity[0]
    return center.vmFolder.childEntity[0]


def other_host(session, vm):
    hosts = vm.runtime.host.parent.host
    return next(host.name for host in hosts if host.name != vm.runtime.host.name)


@pytest.mark.slow
def test_a_machine_moves_to_another_host_and_back(session):
    vm, say = machine(session), Say()
    at, to = vm.runtime.host.name, other_host(session, vm)
    relocated(session, vm.name, to, say)
    assert vm.runtime.host.name == to
    told = [json.loads(line) for line in say.lines]
    assert [one["status"] for one in told if "status" in one] == ["setup", "completed"]
    relocated(session, vm.name, at, Say())
    assert vm.runtime.host.name == at


def test_a_machine_that_is_there_already_and_names_nobody_knows_are_refused(session):
    vm = machine(session)
    with pytest.raises(BadInput, match="already"):
        relocated(session, vm.name, vm.runtime.host.name, Say())
    with pytest.raises(Unknown, match="known: DC0"):
        relocated(session, "no-such", vm.runtime.host.name, Say())


# The simulator refuses no move, so that a task fails here that it does refuse.
def test_a_task_that_fails_says_why(session):
    vm = machine(session)
    assert vm.runtime.powerState == "poweredOn"
    with pytest.raises(HostError, match=r"(?i)power"):
        ended_well(vm.PowerOnVM_Task(), Say(), "host", 10)


def test_a_move_that_is_late_is_cancelled_and_says_where_the_machine_is(session):
    vm = machine(session)
    at, to = vm.runtime.host.name, other_host(session, vm)
    with pytest.raises(HostError, match=f"was not moved to {to}, and is on {at}") as failed:
        relocated(session, vm.name, to, Say(), deadline=0.2)
    assert "canceled" in failed.value.said


def test_a_wrong_password_and_an_unknown_certificate_let_nobody_in(port, certificate):
    trusted = str(certificate / "cert")
    with (
        pytest.raises(LoginRefused, match="refused the login of user"),
        connected("127.0.0.1", "user", "wrong", port=port, trusted=trusted),
    ):
        pass
    with (
        pytest.raises(LoginRefused, match="certificate"),
        connected("127.0.0.1", "user", "pass", port=port),
    ):
        pass
