"""Labs of hypervisors by their lab.toml: what the latency study would do there, and what not."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import worlds
from esxi_stand_in import stand_in
from lab_toml import lab_toml, reached_at, table
from sshd import serving

from labkit import studies
from labkit.changes.in_force import applied, in_force
from labkit.changes.plan import plan
from labkit.errors import BadInput, ResultsError
from labkit.event import happening
from labkit.events.asked_to_start import AskedToStart
from labkit.lab import Lab
from labkit.running import possible
from labkit.settings._guest import ANSWERS
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.settings.neighbour import GuestNeighbour, Neighbour
from labkit.settings.reclaim import FullReservation
from labkit.workloads.ping import Ping
from labkit.workloads.wake_up import WakeUp

PROGRAMS = ("vim-cmd", "virsh")

HOME = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.when_changed("labkit/settings/", "labkit/changes/"),
    pytest.mark.slow,
]
# Nothing in it could shut it down again.
EMPTY = """\
<domain type='qemu'><name>empty</name><memory unit='MiB'>32</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type></os></domain>
"""


@pytest.fixture
def esxi(tmp_path):
    with stand_in.standing_in(tmp_path) as found:
        yield found


def lab_of(esxi, folder, vm="lab"):
    at = reached_at(esxi.host.transport.at)
    more = {"client": {}, "server": {"interface": "vmnic1"}, "guest": {"vm": vm}}
    tables = (table(role, **at | fields) for role, fields in more.items())
    return lab_toml(folder / "lab.toml", *tables, known_hosts="known_hosts")


@pytest.fixture
def lab(esxi, tmp_path):
    with closing(Lab.read(lab_of(esxi, tmp_path))) as found:
        yield found


def told(esxi, folder, *words):
    """What `labkit ... --json` prints about the lab."""
    file = lab_of(esxi, folder)
    result = subprocess.run(
        [sys.executable, "-m", "labkit", *words, "--lab", str(file), "--json"],
        capture_output=True, text=True, cwd=HOME, env={**os.environ, "LABKIT_OUT": str(folder)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_plan_for_esxi_has_sensitivity_reservations_and_the_function(esxi, tmp_path):
    asked = told(esxi, tmp_path, "plan", "lat_ping", "--condition", "VM-Latency-SRIOV")
    steps = {step["thing"]: step for step in asked["steps"] if "guest2 on" not in step["thing"]}
    steps = {name: step for name, step in steps.items() if name.endswith(" of server")}
    assert {name: step["state"] for name, step in steps.items()} == {
        "FullReservation of server": "possible",
        "GuestNic of server": "possible", "GuestPower of server": "possible",
        "ExclusiveCpu of server": "possible",
    }  # fmt: skip
    assert steps["GuestNic of server"]["wanted"] == "nic=direct batch=1 lro=off"
    names = list(steps)
    assert names.index("FullReservation of server") < names.index("ExclusiveCpu of server")


LATENCY_SENSITIVE = """\
sched.cpu.latencySensitivity = "high"
sched.mem.min = "4096"
sched.mem.pin = "TRUE"
sched.cpu.min = "5000"
ethernet1.present = "FALSE"
pciPassthru0.present = "TRUE"
ethernet1.coalescingScheme = "disabled"
"""


class FromAnywhere(Ping):
    """The stand-in is its own client here, and its ping is BusyBox's."""

    def lacking(self, hosts):
        return ""


def of_the_stand_in():
    return replace(studies.find("lat_ping"), workload=FromAnywhere())


def test_one_condition_after_another_each_starts_its_machine_and_all_goes_back(esxi, lab):
    study = of_the_stand_in()
    before = esxi.vmx("lab").read_text()
    with in_force(lab.hosts, "one after another") as changes:
        refused = possible.refusals(study, lab, changes.learn(possible.settings(study, lab)))
        changes.take(changes.possible_roles())
        able = [one for one in study.conditions if one.name not in refused]
        for condition in (able[-1], able[0]):
            asked = [s for s in condition.asked(lab) if not changes.steps[s].why]
            changes.move_to(asked)
            changes.check(asked)
            assert "Powered on" in esxi.host.check("vim-cmd", "vmsvc/power.getstate", "1")
            lines = esxi.vmx("lab").read_text().splitlines()
            there = [line in lines for line in LATENCY_SENSITIVE.splitlines()]
            assert set(there) == {condition is able[-1]}
    assert esxi.vmx("lab").read_text() == before


def test_esxi_is_no_bare_linux_so_native_is_not_measured_there(lab):
    refused = possible.refusals(of_the_stand_in(), lab)
    assert "esxi" in refused["Native"] and "not linux" in refused["Native"]
    assert {name for name in refused if "[vms=4]" not in name} == {"Native"}
    assert all("no host for it" in why for name, why in refused.items() if "[vms=4]" in name)


@pytest.fixture
def whole(esxi, tmp_path):
    """The stand-in as the server; the client and the guests are this machine, by a plain sshd."""
    folder = tmp_path / "linux"
    folder.mkdir()
    with serving(folder) as server:
        lines = "".join((place / "known_hosts").read_text() for place in (tmp_path, folder))
        (tmp_path / "known_hosts").write_text(lines)
        there = {**reached_at(esxi.host.transport.at), "interface": "vmnic1"}
        here = {**reached_at(server.address()), "interface": "lo"}
        vms = {"client": "", "guest": "lab", "guest2": "shop", "guest3": "shop"}
        tables = (table(role, **here, vm=vm) for role, vm in vms.items())
        file = lab_toml(tmp_path / "whole.toml", table("server", **there), *tables,
                        known_hosts="known_hosts")  # fmt: skip
        with closing(Lab.read(file)) as lab:
            yield lab


def test_all_latency_studies_run_on_esxi_but_for_what_it_has_not(whole):
    why = {name: possible.refusals(studies.find(name), whole) for name in (
        "lat_10us", "lat_cpu_exclusive", "lat_vmxnet3", "lat_feature")}  # fmt: skip
    assert why["lat_cpu_exclusive"] == why["lat_vmxnet3"] == {}
    lacking = {"Native-Intel", "Native-SFC", "Native-Spinning", "VM-Latency-SFC"}
    assert set(why["lat_10us"]) == lacking
    assert "onload is missing" in why["lat_10us"]["VM-Latency-SFC"]
    scarce = {"Latency-High, memory reclaimed", "Latency-High, memory reserved"}
    assert set(why["lat_feature"]) == scarce, "labkit takes no memory away there"


def test_a_neighbour_on_esxi_is_a_program_in_another_guest_and_elsewhere_one_of_the_host(whole):
    study = studies.find("lat_feature")
    planned = possible.plan(study, whole)
    whys = {str(step.setting): step.why for step in planned.steps}
    assert "another guest" in whys["Neighbour = busy on all CPUs"]
    assert not whys["GuestNeighbour = busy on all CPUs"]
    assert "GuestNeighbour" in study.condition("Default").shown(whole, planned)
    client = {"server": whole.hosts["client"], "guest2": whole.hosts["guest2"]}
    asked = [Neighbour("busy"), GuestNeighbour("busy")]
    of_host, of_guest = plan(asked, client).steps
    assert not of_host.why and of_guest.why.startswith("not needed")


def test_a_lab_of_esxi_without_a_second_guest_is_told_to_add_one(lab):
    steps = possible.plan(studies.find("lat_feature"), lab).steps
    whys = [step.why for step in steps if isinstance(step.setting, Neighbour)]
    assert whys and all("add [hosts.guest2]" in why for why in whys)


def test_a_refusal_that_is_claimed_is_asked_for_and_seen(whole):
    """The claim can come out either way: a machine with its memory reserved does start."""
    asked, seen = AskedToStart(after=0, settle=0), {}
    condition = studies.find("lat_feature").condition("Latency-High, memory not reserved")
    assert condition.events == (AskedToStart(),) and not asked.refusal(whole)
    of_second = [s for s in condition.settings if getattr(s, "guest", "") == "guest2"]
    server = {"server": whole.hosts["server"]}
    for named, settings in (("not reserved", of_second), ("as it comes", of_second[:1])):
        with applied(settings, server), happening((asked,), whole) as beside:
            beside.begun()
            while beside.going:
                time.sleep(0.05)
        (sample,) = AskedToStart.parse(beside.texts["asked_to_start.txt"], {})
        seen[named] = (sample.metric, float(sample.values[0]))
    assert seen == {"not reserved": ("refused without memory", 1.0),
                    "as it comes": ("refused without memory", 0.0)}  # fmt: skip
    state = whole.hosts["server"].check("vim-cmd", "vmsvc/power.getstate", "2")
    assert "Powered on" in state, "as it was before"


def test_a_start_that_is_refused_for_another_reason_says_nothing_of_memory():
    text = json.dumps({"asked": "guest2", "code": 1, "answer": "Power on failed: no licence"})
    with pytest.raises(ResultsError, match="another reason"):
        AskedToStart.parse(text, {})


def test_only_a_host_that_reserves_cpu_time_measures_what_that_brings():
    reserved = studies.find("lat_feature").condition("Latency-High, CPU reserved")
    assert FullReservation() in reserved.settings and FullReservation() not in reserved.optional


def test_a_condition_says_what_stands_for_it_on_esxi(whole):
    study = studies.find("lat_cpu_exclusive")
    run_2 = study.condition("Run 2").shown(whole, possible.plan(study, whole))
    assert "ExclusiveCpu = last CPU, fifo (CPUs that ESXi chooses)" in run_2
    assert "OtherCpus = all CPUs but the last (what VMkernel does by itself)" in run_2


def test_on_esxi_a_load_is_watched_by_esxtop_while_it_runs(whole):
    load = WakeUp(count=20)
    hosts = {"client": whole.hosts["client"], "server": whole.hosts["guest"],
             "host": whole.hosts["server"]}  # fmt: skip
    text = load.run(hosts)
    found = {sample.metric: sample.values for sample in load.parse(text)}
    assert found["ready share"] == pytest.approx([0.005]), "of lab, and without the first moment"
    assert found["cpu share"] == pytest.approx([0.4])
    assert "shop" not in text, "of thousands of columns, those of the guest are kept"
    assert whole.hosts["server"].check("sh", "-c", "ls /tmp") == ""


def test_a_lab_that_does_not_say_which_machine_is_the_guest_is_told_how(esxi, tmp_path):
    with closing(Lab.read(lab_of(esxi, tmp_path, vm=""))) as lab:
        why = possible.refusals(studies.find("lat_ping"), lab)["VM-Default"]
    assert "the lab file names no virtual machine (`vm`) for that guest" in why


def test_only_guests_have_the_name_of_a_machine(tmp_path):
    (tmp_path / "lab.toml").write_text('[hosts.guest]\ncontrol = "a"\nvm = "lab"\n')
    with pytest.raises(BadInput, match="vm = is for a guest"):
        Lab.read(tmp_path / "lab.toml")


def test_a_machine_of_libvirt_that_was_started_is_on(tmp_path):
    with worlds.kvm(tmp_path) as host:
        (tmp_path / "empty.xml").write_text(EMPTY)
        host.check("virsh", "define", str(tmp_path / "empty.xml"))
        guests = {"guest": replace(host.guests["guest"], vm="empty")}
        host = replace(host, guests=guests)
        (off,) = plan([GuestPower("on")], {"server": host}).steps
        assert (off.kind, off.current, off.why) == ("kvm", "off", "")
        for words in off.way.writes("on"):
            host.check(*words)
        (on,) = plan([GuestPower("on")], {"server": host}).steps
        assert on.current == "on"
        guest_less = plan([GuestNic("direct"), ExclusiveCpu(), FullReservation()],
                          {"server": replace(host, guests={})})  # fmt: skip
        whys = [step.why for step in guest_less.steps]
        assert all("names no virtual machine" in why or "by hand" in why for why in whys)


def test_a_guest_that_was_started_is_waited_for_until_its_sshd_greets(tmp_path):
    with serving(tmp_path) as server:
        os.kill(server.pid, signal.SIGSTOP)
        words = ["sh", "-c", ANSWERS, "sh", "127.0.0.1", str(server.port)]
        waiting = subprocess.Popen(words)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1)
        os.kill(server.pid, signal.SIGCONT)
        assert waiting.wait(60) == 0
