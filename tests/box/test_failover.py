"""A management server fails over between two hosts of a box: real Pacemaker, real Corosync."""

import json
import random
from contextlib import ExitStack
from dataclasses import replace

import pytest
from simulator import simulator_or_skip

from labkit import studies
from labkit.box import Faults
from labkit.changes.in_force import applied
from labkit.errors import HostError, ResultsError
from labkit.event import Say, happening
from labkit.events import _power
from labkit.events.host_failure import HostFailure
from labkit.events.network_hiccup import NetworkHiccup
from labkit.lab import opened
from labkit.settings import availability
from labkit.settings.availability import FailureDetection, Fencing
from labkit.workloads import _cluster
from labkit.workloads.management import Management

PROGRAMS = ("ip", "pgrep", "pkill")
pytestmark = [pytest.mark.box, pytest.mark.slow]
STUDY = studies.find("vcenter_ha")
LEFT = ("pgrep", "-l", "corosync|pacemaker|postgres|vcsim")


@pytest.fixture
def lab(box_of):
    simulator_or_skip()
    with opened(box_of("failover")) as lab:
        hosts = {role: lab.host(role) for role in Management.roles}
        if why := Management().lacking(hosts):
            pytest.fail(why)
        yield lab
        for host in (lab.host("server"), lab.host("server2")):
            assert host.run(*LEFT).stdout == "", "cluster software is left"
            assert not host.run("test", "-e", _cluster.FOLDER).ok, "its configuration is left"
            assert _cluster.MARK not in host.check("cat", _cluster.AUTHORIZED)
            assert not host.run("test", "-e", availability.WISHES).ok, "what was asked is left"
            assert "state UP" in host.check("ip", "link", "show", host.interface)


def hosts_of(lab):
    return {role: lab.host(role) for role in Management.roles}


def failed_over(lab, after, **knobs):
    """What an administrator saw of a failure, and its steps."""
    event, load = HostFailure(after=after, settle=0.5), Management(**knobs)
    with happening([event], lab) as beside:
        text = load.during(hosts_of(lab), beside)
    seen = beside.texts["host_failure.txt"]
    samples = [*load.parse(text), *event.parse(seen, load.over_time(text))]
    got = {one.metric: float(one.values[0]) for one in samples}
    assert got["changes lost"] == 0 and got["unreachable time"] < 1
    return text, got, event.time_line(seen).phases


def test_the_other_host_serves_what_was_committed_and_no_two_serve_at_once(lab):
    """The power goes while an administrator changes the inventory; machines elsewhere answer."""
    text, got, steps = failed_over(lab, 2.0, hosts=2, vms=50, part=1)
    # Corosync's token and consensus: 1 s, and 1.2 times as much.
    assert 1.5 < got["detection time"] < 4
    assert [one.name for one in steps] == ["detection", "fencing", "restart", "boot", "loading"]
    assert all(one.seconds > 0 for one in steps)
    assert sum(one.seconds for one in steps) <= got["failover downtime"] + 0.1
    assert "changed change-" in text, "nothing was changed meanwhile"


@pytest.mark.torture
@pytest.mark.parametrize("number", range(30))
def test_a_failure_at_a_random_moment_loses_nothing_that_was_acknowledged(lab, number):
    text, _, _ = failed_over(lab, random.Random(number).uniform(1.1, 4), hosts=1, vms=20, part=1)
    assert "changed change-" in text


@pytest.mark.torture
def test_detection_grows_with_the_time_out(lab):
    """Corosync waits for its token, and 1.2 times as long for all to agree."""
    for token in (500, 1500, 4000):
        _, got, _ = failed_over(lab, 1.0, token_ms=token)
        assert 1.7 * token / 1000 < got["detection time"] < 2.2 * token / 1000 + 1


@pytest.mark.torture
@pytest.mark.parametrize("token, fails", [(1000, True), (4000, False)])
def test_a_hiccup_of_three_seconds_is_a_failure_for_a_short_time_out_alone(lab, token, fails):
    event, load = NetworkHiccup(after=1.0, settle=8), Management()
    asked = [FailureDetection(token, role=role) for role in ("server", "server2")]
    with applied(asked, lab.hosts), happening([event], lab) as beside:
        text = load.during(hosts_of(lab), beside)
    seen = beside.texts["network_hiccup.txt"]
    got = {one.metric: float(one.values[0]) for one in event.parse(seen, load.over_time(text))}
    assert got["false failovers"] == fails
    assert got["failover downtime"] > 2.9
    assert load.parse(text)[1].values[0] == 0, "changes are lost"
    assert len(event.time_line(seen).phases) in ((2, 1) if fails else (1,))


class Split:
    """The link between the hosts is cut until the block ends; by then the other one serves too."""

    going = False

    def __init__(self, lab):
        self.lab, self.cut = lab, ExitStack()

    def begun(self):
        self.cut.enter_context(Faults(self.lab.name).cut("server"))
        _cluster.ready(self.lab.host("server2"), 0.0, 30)


def test_two_servers_at_once_are_named_where_nobody_takes_power(lab):
    """A split brain, really made: both hosts live, and each believes that it is alone."""
    asked = [Fencing(False, role=role) for role in ("server", "server2")]
    split = Split(lab)
    with applied(asked, lab.hosts), split.cut:
        text = Management(token_ms=500).during(hosts_of(lab), split)
    with pytest.raises(ResultsError, match="it was server and server2") as refused:
        Management.parse(text)
    assert "split brain" in str(refused.value.hint)


def test_hosts_that_are_set_otherwise_make_no_cluster(lab):
    uneven, refused = applied([FailureDetection(500)], lab.hosts), pytest.raises(HostError)
    with uneven, refused as why:
        Management().run(hosts_of(lab))
    assert "are set otherwise" in why.value.what


def test_nothing_is_started_where_the_power_of_the_other_host_cannot_be_taken(lab):
    """Its link is cut and it goes on: the other one may not use the disk."""
    server, other = lab.host("server"), lab.host("server2")
    with _cluster.clustered(server, other, (1, 1), 500):
        _cluster.ready(server, 0.0, 60)
        for host in (server, other):
            host.check("sh", "-c", _cluster.EXPEL)
        server.check("ip", "link", "set", server.interface, "down")
        with pytest.raises(HostError, match="could not be taken"):
            _cluster.ready(other, 0.0, 8)
        assert "start" not in _cluster.notes(_cluster.log(other), 0.0)
        foreign = _cluster.foreign(server)
    assert "in a cluster already" in foreign


def test_cluster_software_that_labkit_did_not_begin_is_named_and_left_alone(lab):
    server = lab.host("server")
    sleeps = ("sh", "-c", "cp /bin/sleep /tmp/corosync && exec /tmp/corosync 60")
    with server.raw(*sleeps):
        server.check("sh", "-c", "until pgrep -x corosync; do sleep 0.05; done")
        assert "corosync runs on server" in Management().lacking(hosts_of(lab))
        with pytest.raises(HostError, match="labkit did not begin it"):
            Management().run(hosts_of(lab))
        assert server.run("pgrep", "-x", "corosync").ok
    server.run("sh", "-c", "pkill -x corosync; rm -f /tmp/corosync")


# The owner's cluster is a stand-in: the other host takes the machine's address a second later.
def test_a_failure_of_ones_own_host_is_seen_by_pings_from_the_other(lab, monkeypatch):
    server, other = lab.host("server"), lab.host("server2")
    address = server.address.rpartition(".")[0] + ".77"
    words = ("ip", "address", "add", f"{address}/24", "dev")
    dies = ("sh", "-c", 'ip link set "$1" down', "dies", server.interface)
    monkeypatch.setitem(_power.OFF, "virsh", lambda power: dies)
    monkeypatch.setitem(
        _power.ON, "virsh", lambda power: ("ip", "link", "set", server.interface, "up")
    )
    hosts = {**lab.hosts, "guest": replace(lab.host("guest"), address=address)}
    power = {"server": {"by": "virsh", "on": "server"}}
    own = replace(lab, tier="hosts", hosts=hosts, power=power)
    server.check(*words, server.interface)
    event, say = HostFailure(after=0.0), Say()
    taken = 'sleep 3; ip address add "$1/24" dev "$2"; sleep 60'
    try:
        with other.raw("sh", "-c", taken, "taken", address, other.interface):
            event.happen(own, say)
        event.undo(own)
    finally:
        for host in (server, other):
            host.run("ip", "address", "del", f"{address}/24", "dev", host.interface)
    text = "\n".join(say.lines)
    assert [one.name for one in event.time_line(text).phases] == ["shutdown", "failover"]
    (sample,) = event.parse(text, {})
    assert 0.5 < sample.values[0] < 5


def test_each_condition_of_the_study_says_what_it_does_there(lab):
    told = json.dumps([one.design for one in STUDY.conditions])
    assert told.count("hosts") == 13
    assert replace(STUDY.workload, vms=4000).inventory[1] == 800
