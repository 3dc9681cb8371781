"""Options of a Proxmox guest's devices, by a stand-in for `qm`: no Proxmox is here."""

import json
import os
from pathlib import Path

import pytest

from labkit.changes.plan import plan
from labkit.errors import BadInput, CommandFailed
from labkit.host import Host
from labkit.settings.proxmox import ProxmoxDevice
from labkit.transports.local import Local

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
def test_an_option_is_made_and_put_back(device, option, wanted, before, guest, host):
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
