"""What runs a guest: KVM where it boots one, else User-Mode Linux, else QEMU by emulation."""

import pytest

from labkit.box import topology
from labkit.box.guests import accelerator, kernel, kvm
from labkit.box.machine import Machine
from labkit.errors import BoxError, Unknown

SHARES = not accelerator.lacking() and kernel.find(*kernel.SHARING) is not None
needs_qemu = pytest.mark.skipif(
    not SHARES, reason="no QEMU, no kernel for its guests, or no virtiofsd; to get them: make test"
)


def quiet(_):
    """Tell nobody."""


def planned(**guest):
    tables = {"hosts": {"server": {}}, "guests": {"guest": {"on": "server", **guest}}}
    return topology.from_tables("t", tables, Machine.of(2))


@pytest.mark.parametrize("asked, kind", [
    ({}, "auto"), ({"accelerator": "uml"}, "uml"), ({"disks": ["64M raw"]}, "auto"),
    ({"disks": ["64M cow"]}, "uml"),
    ({"disks": ["64M qcow2"], "memory": "256M"}, "qemu"),
    ({"disks": ["64M raw 9/s"], "memory": "256M"}, "qemu"),
    ({"disks": ["64M cache=none"], "memory": "256M"}, "qemu"),
    ({"disks": ["64M raw iothread"], "memory": "256M"}, "qemu"),
    ({"vcpus": "2", "memory": "256M"}, "qemu"), ({"nic": "e1000", "memory": "256M"}, "qemu"),
])  # fmt: skip
def test_what_only_one_of_them_has_decides_which(asked, kind):
    assert planned(**asked).guests[0].kind == kind


@pytest.mark.parametrize("name", topology.names())
@pytest.mark.parametrize("chosen", ["kvm", "uml", "tcg"])
def test_every_topology_can_be_had_with_every_accelerator(name, chosen):
    plan = topology.find(name, Machine.of(16))
    made_of = plan.accelerated(lambda kind: {"auto": chosen, "qemu": "tcg"}.get(kind, kind))
    assert made_of.roles == plan.roles
    for before, guest in zip(plan.guests, made_of.guests, strict=True):
        assert guest.root == ("host" if before.kind == "auto" and chosen != "uml" else "")
        assert guest.mebibytes >= (64 if guest.accelerator == "uml" else 192)


def test_a_name_that_is_no_accelerator_is_refused(monkeypatch):
    monkeypatch.setenv(accelerator.VARIABLE, "xen")
    with pytest.raises(Unknown, match="known: auto, kvm, tcg, uml"):
        accelerator.choice("auto", quiet)


@needs_qemu
def test_what_is_asked_for_is_taken_where_a_guest_leaves_a_choice(monkeypatch):
    for asked in ("tcg", "uml"):
        monkeypatch.setenv(accelerator.VARIABLE, asked)
        assert accelerator.choice("auto", quiet) in (asked, "")
    assert accelerator.choice("tcg", quiet) == "tcg"


def planted_device(tmp_path, monkeypatch, mode):
    device = tmp_path / "kvm"
    device.touch()
    device.chmod(mode)
    monkeypatch.setattr(kvm, "DEVICE", device)
    monkeypatch.setattr(kernel, "cache", lambda: tmp_path)


def test_a_device_that_nobody_may_open_is_named_with_what_mends_it(tmp_path, monkeypatch):
    planted_device(tmp_path, monkeypatch, 0o600)
    works, text, how = kvm.state()
    assert works is False and text.startswith("no permission for ") and how.endswith("kvm")
    monkeypatch.setattr(kvm, "DEVICE", tmp_path / "none")
    assert kvm.state() == (False, f"no {tmp_path}/none", "")


def test_in_a_box_without_root_no_group_opens_the_device(tmp_path, monkeypatch):
    planted_device(tmp_path, monkeypatch, 0o660)
    assert kvm.closed() == ""
    monkeypatch.setenv("LABKIT_ROOTLESS_BOX", str(tmp_path))
    assert kvm.closed().startswith("no permission for ")
    (tmp_path / "kvm").chmod(0o666)
    assert kvm.closed() == ""


@needs_qemu
@pytest.mark.slow
def test_a_trial_that_boots_its_guest_ends_without_last_words(monkeypatch):
    monkeypatch.setattr(kvm, "TRIAL_SECONDS", 60)
    assert kvm._last_words("tcg") == ""


@pytest.mark.slow
@pytest.mark.box
def test_a_device_that_opens_and_boots_no_guest_is_tried_once_and_falls_back(tmp_path, monkeypatch):
    """The planted device says who may; QEMU tries the machine's own, which boots none here."""
    planted_device(tmp_path, monkeypatch, 0o666)
    monkeypatch.delenv(accelerator.VARIABLE, raising=False)
    heard = []
    chosen = accelerator.choice("auto", heard.append)
    if chosen == "kvm":
        assert kvm.state() == (True, kvm.WORKS, "")
        return
    assert chosen in ("uml", "tcg")
    assert [line for line in heard if "opens and boots no guest" in line and chosen in line]
    kept = kvm.answers().read_text()
    assert accelerator.choice("auto", heard.append) == chosen
    assert kvm.answers().read_text() == kept and sum("trying" in line for line in heard) == 1
    assert kvm.state()[0] is False and "boots no guest" in kvm.state()[1]
    with pytest.raises(BoxError, match="KVM does not boot"):
        accelerator.choice("kvm", quiet)
    kvm.answers().write_text(f"another-boot {kept.partition(' ')[2]}")
    assert kvm.last_trial("this-boot") is None
