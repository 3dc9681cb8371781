"""Tools that are not here: a stand-in for Proxmox's `qm`, and Docker that may not be asked."""

import json
import os
import shutil
from pathlib import Path

import pytest

from labkit.changes.plan import plan
from labkit.errors import BadInput, CommandFailed
from labkit.host import Host
from labkit.settings.container import ContainerCpus
from labkit.settings.proxmox import ProxmoxDevice
from labkit.transports.local import Local

PROGRAMS = ("docker", "setpriv")

QM = Path(__file__).resolve().parent / "proxmox"
DISK = "local-lvm:vm-100-disk-0,iothread=1,size=32G"
NET = "virtio=BC:24:11:00:00:01,bridge=vmbr0"


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """A guest that runs, and the host that it is on."""
    file = tmp_path / "100.json"
    lines = {"cores": "4", "net0": NET, "scsi0": DISK, "scsihw": "virtio-scsi-single"}
    file.write_text(json.dumps({"now": lines, "pending": {}, "state": "running", "boots": 0}))
    monkeypatch.setenv("QM_GUESTS", str(tmp_path))
    monkeypatch.setenv("PATH", f"{QM}{os.pathsep}{os.environ['PATH']}")
    return file


@pytest.fixture
def host():
    return Host("server", "192.0.2.1", Local(), "eth0")


ASKED = (
    ("scsi0", "aio", "native", "default"), ("scsi0", "cache", "writeback", "default"),
    ("scsi0", "iothread", "0", "1"), ("net0", "queues", "4", "default"),
)  # fmt: skip


@pytest.mark.parametrize("device, option, wanted, before", ASKED)
def test_an_option_is_made_read_back_and_put_back_and_the_guest_takes_it(
    device, option, wanted, before, guest, host
):
    setting = ProxmoxDevice(100, device, option, wanted)
    (step,) = plan([setting], {"server": host}).steps
    assert (step.why, step.current) == ("", before) and step.way
    assert step.way.needs == {"root", "guest restart"}
    for value in (wanted, before):
        for words in step.way.writes(value):
            host.check(*words)
        assert host.check(*step.way.reads).strip() == value
        assert host.check(*step.way.live).strip() == value
    answer = json.loads(guest.read_text())
    assert answer["boots"] == 2 and answer["pending"] == {}
    assert {*answer["now"][device].split(",")} == {*{"scsi0": DISK, "net0": NET}[device].split(",")}


def test_a_guest_that_is_off_stays_off(guest, host):
    guest.write_text(json.dumps({**json.loads(guest.read_text()), "state": "stopped"}))
    (step,) = plan([ProxmoxDevice(100, "scsi0", "aio", "threads")], {"server": host}).steps
    host.check(*step.way.writes("threads")[0])
    answer = json.loads(guest.read_text())
    assert answer["boots"] == 0 and "aio=threads" in answer["now"]["scsi0"]


def test_what_is_not_there_is_named(guest, host):
    (step,) = plan([ProxmoxDevice(100, "virtio3", "aio", "native")], {"server": host}).steps
    assert "guest 100 has no virtio3" in step.why
    (step,) = plan([ProxmoxDevice(999, "scsi0", "aio", "native")], {"server": host}).steps
    assert "999.conf' does not exist" in step.why


def test_a_value_that_proxmox_refuses_fails_with_its_words(guest, host):
    (step,) = plan([ProxmoxDevice(100, "scsi0", "aio", "native")], {"server": host}).steps
    with pytest.raises(CommandFailed, match="ended with code 255") as error:
        host.check(*step.way.writes("fast")[0])
    assert "does not have a value in the enumeration" in error.value.said


@pytest.mark.parametrize("words", [
    ("scsi0", "aoi", "native"), ("scsi0", "aio", "fast"), ("scsi0", "queues", "4"),
    ("net0", "aio", "native"), ("disk0", "aio", "native"), ("scsi0;", "aio", "native"),
])  # fmt: skip
def test_nonsense_is_refused_before_anything_is_asked(words):
    with pytest.raises(BadInput):
        ProxmoxDevice(100, *words)


needs_docker = pytest.mark.skipif(not shutil.which("docker"), reason="no docker: make system")
TOOLS = ("sh", "cat", "id", "uname", "sed", "mkdir", "ls", "env", "head", "tr", "sha256sum")
ASKED = ContainerCpus("lab", "0")


class Around(Local):
    """This machine, with words before each command."""

    def __init__(self, *words):
        super().__init__("here")
        self.words = words

    def run(self, words, **how):
        return super().run((*self.words, *words), **how)


def why(*words):
    (step,) = plan([ASKED], {"server": Host("here", "127.0.0.1", Around(*words))}).steps
    return step.why


@needs_docker
def test_an_engine_without_a_daemon_is_impossible_and_says_so(tmp_path):
    said = why("env", f"DOCKER_HOST=unix://{tmp_path}/nobody.sock")
    assert "daemon" in said and str(tmp_path) in said


def test_a_host_without_docker_says_what_it_is_instead(tmp_path):
    for name in TOOLS:
        (tmp_path / name).symlink_to(shutil.which(name))
    assert "docker" in why("env", f"PATH={tmp_path}")


@needs_docker
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_who_may_not_ask_the_daemon_is_told_so(tmp_path):
    said = why("setpriv", "--reuid=65534", "--clear-groups", "env", "HOME=/nonexistent")
    assert "root" in said
