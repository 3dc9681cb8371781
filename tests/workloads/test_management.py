"""A management server that is asked, and a cluster of somebody's own: what a run may show."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labkit import studies
from labkit.changes.plan import plan
from labkit.errors import BadInput, ResultsError
from labkit.events.host_failure import HostFailure, Outage
from labkit.host import Host
from labkit.lab import Lab
from labkit.running.preparing import needed
from labkit.transports.local import Local
from labkit.workloads import _guarded
from labkit.workloads._guarded import ClusterView, ElementTree
from labkit.workloads._sections import joined
from labkit.workloads.management import Management

# What Pacemaker 2.1.5 printed on two hosts of a box, but for rows that nobody reads.
SHOWN = Path(__file__).with_name("crm_mon.xml").read_text()
TWO = 'name="two" id="2" online="true" standby="false" maintenance="false" pending="false"'
RUNS = 'managed="true" failed="false">\n      <node name="one" id="1" cached="true"/>'
HOSTS = "".join(
    f'[hosts.{role}]\ncontrol = "192.0.2.{number}"\n'
    for number, role in enumerate((*Management.roles, "center"), 1)
)
POWER = "".join(
    f'[power.{role}]\nby = "virsh"\non = "client"\nvm = "{role}"\n' for role in _guarded.PAIR
)


def view(text=SHOWN, node="two"):
    return ClusterView(node, ElementTree.fromstring(text), "center")


@pytest.fixture
def lab(tmp_path):
    (tmp_path / "lab.toml").write_text(HOSTS + 'resource = "center"\n' + POWER)
    return Lab.read(tmp_path / "lab.toml")


def test_a_cluster_that_guards_its_machine_is_fit():
    assert view(node="one").refusal("two") == ""
    assert view().runs_on == ["one"]


@pytest.mark.parametrize("shown, other, said", [
    (TWO, TWO.replace('online="true"', 'online="false"'), "a split brain, or another cluster"),
    (f'{TWO} unclean="false"', f'{TWO} unclean="true"', "a split brain, or another cluster"),
    (TWO, TWO.replace('standby="false"', 'standby="true"'), "keeps two in standby"),
    ("stonith-enabled=\"true\"", "stonith-enabled=\"false\"", "takes no host's power"),
    ("stonith:fence_board", "ocf:other:thing", "takes no host's power"),
    ('maintenance-mode="false"', 'maintenance-mode="true"', "does not manage center"),
    ("heartbeat:VirtualDomain", "heartbeat:Dummy", "no ocf:heartbeat:VirtualDomain"),
    (f'"Started" active="true" {RUNS}\n    </resource>\n  </r',
     '"Stopped" active="false" managed="true" failed="false">\n    </resource>\n  </r',
     "center runs on no host"),
])  # fmt: skip
def test_a_cluster_whose_other_host_cannot_take_over_or_that_guards_nothing_is_named(
    shown, other, said
):
    assert shown in SHOWN
    assert said in view(SHOWN.replace(shown, other), "one").refusal("two")


def test_steps_of_a_failover_are_seen_one_after_the_other():
    """The host is silent; then it is off for sure; then the machine is being started."""
    one = TWO.replace('name="two" id="2"', 'name="one" id="1"')
    silent = SHOWN.replace(f'{one} unclean="false"', f'{one} unclean="true"')
    off = SHOWN.replace(one, one.replace('online="true"', 'online="false"'))
    here = off.replace(RUNS, RUNS.replace('"one" id="1"', '"two" id="2"'))
    seen = [list(view(text).has_happened("one")) for text in (SHOWN, silent, off, here)]
    assert seen == [[], ["lost"], ["lost", "fenced"], ["lost", "fenced", "start"]]


def test_what_a_cluster_could_not_do_is_said_in_its_own_words():
    assert view().trouble("one") == "center_start_0 failed on two: no disk"
    failed = (
        '<fence_history><fence_event action="off" target="one" status="failed"/></fence_history>'
    )
    text = SHOWN.replace("<failures>", f"{failed}<failures>")
    assert view(text).trouble("one") == "the power of one could not be taken"


ONE, OTHER = "list 10.0.0.1 1.0 1.1 200 1\n", "list 10.0.0.2 1.2 1.3 200 1\n"
AGAIN = "list 10.0.0.1 1.4 1.5 200 1\n"
FIRST, SECOND = {"server": "200", "server2": "0"}, {"server": "0", "server2": "200"}


def text(asked, **after):
    machines = "".join(f"machine 10.0.0.{n}\n[1.0] 64 bytes from x\n[1.1] 64 bytes from x\n"
                       for n in (8, 9))  # fmt: skip
    return joined({"asked": asked + machines, **after})


def guarded(*sides):
    """What hosts say of the machine that serves, and which of them runs it."""
    names = (f"{role}{_guarded.ITS_MACHINE}" for role in _guarded.PAIR)
    return {"center": "200\n", **dict(zip(names, sides, strict=True))}


@pytest.mark.parametrize("asked, after, said", [
    (ONE, FIRST, ""), (ONE, {"server": "200", "server2": "200"}, "one host may serve at a time"),
    (ONE, {"server": "0", "server2": "503"}, "one host may serve at a time"),
    (ONE + OTHER, SECOND, ""), (ONE + OTHER + AGAIN, SECOND, "split brain"),
    (ONE + OTHER, guarded("running", "off"), ""),  # one boot of the machine after the other
    (ONE + OTHER + AGAIN, guarded("running", "off"), "one host may serve"),
    (ONE, guarded("running", "running"), "it was server and server2"),
    (ONE, guarded("off", "silent"), "it was none"),
])  # fmt: skip
def test_two_that_serve_at_once_or_in_turn_or_run_one_machine_are_no_figure(asked, after, said):
    """The hosts are asked afterwards; by what was answered before, none comes back."""
    with pytest.raises(ResultsError, match=said) if said else nullcontext():
        assert Management.parse(text(asked, **after))[0].metric == "unreachable time"


def test_a_lab_names_the_machine_and_both_powers(lab, tmp_path):
    event = HostFailure()
    assert lab.host("center").resource == "center" and event.refusal(lab) == ""
    assert event.cuts_power(lab) == ("server", "server2")
    text = lab.path.read_text()
    lab.path.write_text(text.replace("[power.server2]", "[power.client]"))
    assert "no [power.server2]" in event.refusal(Lab.read(lab.path))
    lab.path.write_text(text.replace('resource = "center"', 'resource = "a/b"'))
    with pytest.raises(BadInput, match="resource is no identifier"):
        Lab.read(lab.path)


def test_a_host_without_power_is_not_counted_and_forgets_what_is_set(lab):
    """Its counters begin anew; a time-out that lasts until it starts is refused by name."""
    study = studies.find("vcenter_ha")
    usual, timed = study.condition("HA [inventory=small]"), study.condition("HA [token=500ms]")
    assert set(usual.watch(lab, study.loads).hosts) == {"client", "guest", "guest2"}
    assert usual.watch(lab, study.loads).limit == float("inf")
    here = {role: Host(role, "127.0.0.1", Local(role)) for role in lab.hosts}
    local = Lab("own", here, power=lab.power)
    planned = plan(timed.asked(local), here)
    known = replace(planned, steps=tuple(replace(step, why="") for step in planned.steps))
    assert "loses its power meanwhile" in timed.obstacles(local, study.workload, known)[0]
    assert usual.pairs(lab, study.workload)["guest2"]["center"] is lab.host("center")


def test_a_clients_clock_that_is_ahead_makes_no_outage_longer():
    """Its answers are by its own clock; what the cluster saw is by ours."""
    events = {"down": 100.0, "lost": 102.0, "fenced": 102.5, "start": 103.0, "boot": 103.5,
              "database": 105.0, "ready": 107.0}  # fmt: skip
    lines = "".join(
        f'{{"t": 1.0, "event": "{event}", "at": {at}}}\n' for event, at in events.items()
    )
    clock = '{"t": 1.0, "clock": "client", "offset": 50.0, "bound": 0.001}\n'

    def downtime(text, ahead):
        at = np.array([99.9, 107.4]) + ahead
        loads = {"list": (at, at), "login": (at, at)}
        found = Outage.parse(text, loads)
        return next(s.values[0] for s in found if s.metric == "failover downtime")

    assert downtime(lines, 0) == pytest.approx(7.5) == downtime(clock + lines, 50)


def test_prepare_brings_the_machine_its_database_and_no_cluster(lab):
    """Whoever has a cluster has installed it."""
    needs = needed([studies.find("vcenter_ha")], lab)
    assert {"python3", "/usr/lib/postgresql/*/bin/postgres"} <= needs["center"].keys()
    assert "/usr/lib/postgresql/*/bin/postgres" not in needs["server"]
    assert not any("pacemakerd" in programs for programs in needs.values())


@pytest.mark.parametrize("listed, lost", [("change-1", 0), ("change-2", 1), ("", 1)])
def test_a_change_that_was_acknowledged_and_is_not_listed_is_counted(listed, lost):
    kept = text(ONE + "changed change-1\n", server="0", server2=f"200\n{listed}")
    assert [float(s.values[0]) for s in Management.parse(kept) if s.metric == "changes lost"] == [
        lost
    ]


def test_machines_that_never_answered_are_no_figure():
    silent = text(ONE, server="0", server2="200").replace("64 bytes from", "no answer from")
    with pytest.raises(ResultsError, match="did not answer at all"):
        Management.parse(silent)
