"""The study of failover on hosts whose owner's own Pacemaker guards the management server.

Pacemaker, Corosync, VirtualDomain and the machine's kernel and systemd are real. libvirt and the
power of a host are not (`guarded_machine`).
"""

from dataclasses import replace
from functools import partial

import guarded_machine
import pytest
from boxes import KEPT
from guarded_machine import opened_lab, words
from simulator import simulator_or_skip
from waiting import awaited
from worlds import skip_without

from labkit import box, studies
from labkit.errors import HostError
from labkit.event import Say
from labkit.events import _power
from labkit.events.host_failure import HostFailure, mend
from labkit.judging import judge
from labkit.lab import opened
from labkit.running import possible
from labkit.running.loop import run
from labkit.running.open_lab import study_results
from labkit.verdict import NOT_TESTABLE
from labkit.workloads import _guarded
from labkit.workloads.management import Management

PROGRAMS = ("cibadmin", "crm_attribute", "ip")
pytestmark = [pytest.mark.box, pytest.mark.torture]
STUDY = studies.find("vcenter_ha")
SIZES = {f"{name} [inventory={size}]" for name in ("HA", "Reboot")
         for size in ("small", "medium", "large")}  # fmt: skip


@pytest.fixture
def lab(box_of, tmp_path, monkeypatch):
    simulator_or_skip()
    skip_without(*guarded_machine.PROGRAMS)
    for way, what in (("OFF", "off"), ("ON", "on")):
        monkeypatch.setitem(
            getattr(_power, way), "virsh", lambda p, what=what: words(what, p["vm"])
        )
    monkeypatch.setattr(_guarded, "PATIENCE_SECONDS", 180.0)
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    try:
        with opened(box_of("failover")) as hosts, opened_lab(hosts, tmp_path) as lab:
            settled(lab)
            yield lab
    finally:
        box.down(KEPT)


def settled(lab):
    """As a run begins: the machine runs on one host, and one can log in to it."""
    mend(lab)
    lacking = partial(Management().lacking, lab.hosts)
    awaited(lambda: not lacking(), 180, lacking)


def alone(lab):
    """Asked of both hosts: one of them runs the machine."""
    return sorted(_guarded.sides(lab.hosts).values()) == ["off", "running"]


@pytest.mark.parametrize("names", [{*STUDY.few}, SIZES], ids=["few", "all"])
def test_the_study_runs_on_a_cluster_that_labkit_never_changes(lab, names):
    before = lab.host("server").check("cibadmin", "-Q", "-o", "configuration")
    refused = possible.refusals(STUDY, lab)
    assert {condition.name for condition in STUDY.conditions} - set(refused) == SIZES
    assert "loses its power meanwhile" in refused["HA [token=500ms]"]
    assert "labkit cuts no network" in refused["Hiccup [token=500ms]"]
    chosen = tuple(one for one in STUDY.conditions if one.name in names)
    study = replace(STUDY, workload=replace(STUDY.workload, part=1000), conditions=chosen,
                    absent=tuple(refused) + tuple(SIZES - set(names)))  # fmt: skip
    results = study_results(study, lab, "hosts.toml", label="own")
    run(study, lab, results, repeats=1)
    assert [one.state for one in results.runs()] == ["finished"] * len(names)
    for one in results.finished():
        at = {sample.metric: float(sample.values[0]) for sample in study.samples(one)}
        print(one.condition, {metric: round(value, 2) for metric, value in at.items()})
        assert at["changes lost"] == 0 and at["unreachable time"] < 1
        assert at["failover downtime"] > 0 and at["login downtime"] > 0
        assert at["boot time"] > 0 and at["loading time"] > 0
        if one.condition.startswith("HA"):
            # Corosync's token and consensus: 3 s, and 1.2 times as much.
            assert 3 < at["detection time"] < 40 and at["restart time"] >= 0
    verdicts = {verdict.claim: verdict for verdict in judge(study, results)}
    print(*(f"{one.claim} {one.verdict}: {one.why}" for one in verdicts.values()), sep="\n")
    assert len(verdicts) == 5
    assert names != SIZES or all(one.verdict != NOT_TESTABLE for one in verdicts.values())
    assert alone(lab)
    assert not lab.host("center").run("test", "-e", _guarded.FOLDER).ok, "its server is left"
    assert lab.host("server").check("cibadmin", "-Q", "-o", "configuration") == before


def test_what_such_a_lab_cannot_do_is_named_before_anything_moves(lab):
    """No power by name, no resource, a cluster that takes no power, and one that is split."""
    server, file = lab.host("server"), lab.path.read_text()
    changed = {
        "no [power.server2]": file.replace("[power.server2]", "[power.guest]"),
        "has no resource": file.replace('resource = "center"', ""),
        "has no ocf:heartbeat:VirtualDomain that is called other": file.replace(
            'resource = "center"', 'resource = "other"'),
        "runs on server, and labkit did not begin it": file[: file.index("[hosts.center]")] + file[
            file.index("[power.server]") :],
    }  # fmt: skip
    for why, text in changed.items():
        lab.path.write_text(text)
        with opened(lab.path) as other:
            refused = possible.refusals(STUDY, other)
        assert why in refused["HA [inventory=small]"], refused
    lab.path.write_text(file)
    server.check("crm_attribute", "-t", "crm_config", "-n", "stonith-enabled", "-v", "false")
    assert "two hosts could run the machine at once" in Management().lacking(lab.hosts)
    server.check("crm_attribute", "-t", "crm_config", "-n", "stonith-enabled", "-v", "true")
    assert alone(lab)


def test_a_power_that_cannot_be_taken_for_sure_is_named_and_nothing_is_started(lab, monkeypatch):
    """The host is off, and its board says nothing; then it does, and all is as before."""
    fencing(lab, works=False)
    event = HostFailure()
    with monkeypatch.context() as patched, pytest.raises(HostError) as error:
        patched.setattr(_guarded, "PATIENCE_SECONDS", 30.0)
        event.happen(lab, Say())
    assert "its cluster did not start center" in error.value.what
    assert "could not be taken" in str(error.value.said)
    assert "running" not in _guarded.sides(lab.hosts).values()
    fencing(lab, works=True)
    event.undo(lab)
    assert alone(lab)


def test_hosts_that_do_not_see_each_other_are_named_as_a_split_brain(lab):
    """Nobody is fenced, and the link of one is cut: both live, and a run does not begin."""
    fencing(lab, works=False)
    ports = "ls /sys/class/net/br1/brif | grep -v center0"
    port = lab.host("server").check("sh", "-c", ports).strip()
    lab.host("server").check("ip", "link", "set", port, "down")
    awaited(lambda: "a split brain" in _guarded.unfit(lab.hosts), 60)
    assert "does not see" in _guarded.unfit(lab.hosts)
    with pytest.raises(HostError, match="a split brain"):
        Management().run({role: lab.host(role) for role in (*Management.roles, "center")})


# Below an overlay a file may be written, and not replaced.
def fencing(lab, works):
    """Whether the boards of both hosts answer."""
    broken = "    off | reboot) exit 1 ;; never)"
    change = f"s/^{broken}/    off | reboot)/" if works else f"s/^    off | reboot)/{broken}/"
    script = 'cd /run/own/sbin; sed "$1" fence_board > ../new; cat ../new > fence_board'
    for role in _guarded.PAIR:
        lab.host(role).check("sh", "-c", script, "fencing", change)
