"""A lab with a real libvirt and a guest that has a system: the page lab-kvm.md, walked through."""

import json
from pathlib import Path

import libvirt_lab
import pytest
from boxes import NAME
from waiting import awaited

from labkit import box
from labkit.box.guests import kernel
from labkit.lab import opened
from tests.box.conftest import answers

PROGRAMS = ("pgrep", "virsh")

pytestmark = [pytest.mark.box, pytest.mark.torture]
KVM = f"{NAME}-kvm"


@pytest.fixture(scope="module")
def lab_file(tmp_path_factory):
    if kernel.find() is None:
        pytest.skip("no kernel for a guest of QEMU; to get it: make system")
    box.down(KVM)
    try:
        file = libvirt_lab.up(KVM, tmp_path_factory.mktemp("kvm"))
        with opened(file) as lab:
            lab.host("server").check("virsh", "-q", "start", "lab")
            awaited(lambda: answers(lab.host("guest")), 120)
        yield file
    finally:
        box.down(KVM)


@pytest.fixture
def told(labkit):
    def call(*words):
        done = labkit(*words, "--json")
        assert done.returncode == 0, done.stderr or done.stdout
        return json.loads(done.stdout)

    return call


def definition(lab_file):
    with opened(lab_file) as lab:
        server = lab.host("server")
        asked = (("domstate", "lab"), ("dumpxml", "lab", "--inactive"), ("vcpupin", "lab"))
        return [server.check("virsh", "-q", *words) for words in asked]


def test_the_doctor_finds_a_guest_of_libvirt_ready_and_says_which_network_is_lacking(
    lab_file, told
):
    said = told("doctor", "--lab", str(lab_file))
    states = {one["where"]: one for one in said["checks"] if one["check"] == "conditions"}
    for name in ("lat_ping: Native", "lat_ping: VM-Default", "lat_vmxnet3: VMXNET3-Latency",
                 "lat_feature: CPU owned"):  # fmt: skip
        assert states[name]["state"] == "ok", states[name]
    assert "labkit-direct" in json.dumps(states["lat_ping: VM-SRIOV"])


def test_lat_ping_is_measured_on_a_guest_of_libvirt_and_all_is_put_back(lab_file, told):
    before = definition(lab_file)
    done = told("run", "lat_ping", "--where", str(lab_file), "-p", "repeats=3", "-p", "count=100")
    medians = {row["condition"]: row["value"] for row in done["rows"] if row["percentile"] == 50}
    assert set(medians) == {"Native", "VM-Default"}
    assert medians["Native"] < medians["VM-Default"], "an emulated guest is slower to answer"
    assert done["note"] == "" and definition(lab_file) == before


def test_lat_vmxnet3_finds_the_guest_s_threads_and_switches_its_merging_off(lab_file, told):
    before = definition(lab_file)
    done = told("run", "lat_vmxnet3", "--where", str(lab_file), "-p", "repeats=2")
    assert {row["condition"] for row in done["rows"]} == {"VMXNET3", "VMXNET3-Latency"}
    asked = json.loads((Path(done["results"]) / "study.json").read_text())
    assert "lro=off (merging alone" in asked["here"]["VMXNET3-Latency"]
    assert definition(lab_file) == before


def test_lat_feature_puts_its_neighbours_beside_a_guest_of_libvirt_and_takes_them_away(
    lab_file, told
):
    before = definition(lab_file)
    done = told("run", "lat_feature", "--where", str(lab_file), "-p", "repeats=1",
                  "-p", "count=100")  # fmt: skip
    measured = {row["condition"] for row in done["rows"]}
    assert {"Default", "Idle host", "CPU owned", "Latency-High"} <= measured
    assert "Latency-High, never halting" in measured, "by a loop in the guest"
    assert "Latency-High, CPU reserved" not in measured, "libvirt reserves nothing"
    assert "Latency-High, memory reclaimed" not in measured, "its server has memory enough"
    # Pins to all CPUs stand in the definition from then on, where none stood before.
    assert definition(lab_file)[::2] == before[::2]
    with opened(lab_file) as lab:
        assert lab.host("server").run("pgrep", "-f", "[l]abkit-neighbour-").stdout == ""
