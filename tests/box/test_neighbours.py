"""Settings and loads that need several guests on one host: real neighbours, really put back."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from boxes import OTHER
from leftovers import another
from waiting import awaited

from labkit.changes.in_force import applied, in_force
from labkit.changes.plan import plan
from labkit.condition import Condition
from labkit.errors import Unreachable
from labkit.host import Host
from labkit.job import Job
from labkit.pages.dial_panel import BEFORE, PRESENT, Dialling
from labkit.probes.ready_time import Between, ReadyTime
from labkit.settings.exclusive_cpu import ExclusiveCpu, OtherCpus
from labkit.settings.neighbour import PLACES, Halting, Neighbour
from labkit.settings.reclaim import MemoryLock, Reclaim
from labkit.workloads import _lasting, shared_host
from labkit.workloads import _pairs as pairs
from labkit.workloads._sections import parted
from labkit.workloads.ping import Ping
from labkit.workloads.shared_host import NEIGHBOURS, SharedHost
from labkit.workloads.sockperf import Sockperf

PROGRAMS = ("pgrep", "sockperf")

pytestmark = [pytest.mark.box, pytest.mark.slow]
ALL = [
    [Neighbour("busy")],
    [Neighbour("memory", "all CPUs but the last")],
    [OtherCpus("guest2")],
    [MemoryLock(), Reclaim()],
]


@pytest.fixture(scope="module")
def lab():
    with another(OTHER, "neighbours") as found:
        yield found


def current(setting, lab):
    (step,) = plan([setting], lab.hosts).steps
    return step.current


def neighbours(lab):
    asked = ("pgrep", "-f", "[l]abkit-(neighbour|awake|memory)-")
    said = [lab.host(role).run(*asked).stdout for role in ("server", "guest")]
    return "".join(said).split()


def skip_unless_possible(settings, lab):
    """A server may have one CPU, and a machine no disk that takes executable files."""
    if whys := [step.why for step in plan(settings, lab.hosts).steps if step.why]:
        pytest.skip(f"this machine cannot be set so: {whys[0]}")


@pytest.mark.parametrize("settings", ALL, ids=lambda settings: str(settings[-1]))
def test_settings_take_and_go_back_after_an_exception(lab, settings):
    skip_unless_possible(settings, lab)
    before = [current(setting, lab) for setting in settings]
    with pytest.raises(ZeroDivisionError), applied(settings, lab.hosts):
        assert [current(setting, lab) for setting in settings] == [s.wanted for s in settings]
        1 / 0  # noqa: B018
    assert [current(setting, lab) for setting in settings] == before and neighbours(lab) == []


@pytest.mark.parametrize("kind", ["busy", "memory"])
def test_what_a_setting_keeps_busy_is_no_foreign_load(lab, kind):
    asked, load = Neighbour(kind), Ping(count=100)
    with applied([asked], lab.hosts):
        beside = Condition("beside it", "-", "-", (asked,)).watch(lab, [load])
        nobody = Condition("without it", "-", "-", (OtherCpus("guest2"),)).watch(lab, [load])
        for watch in (beside, nobody):
            watch.begin()
        load.run(lab.hosts)
        time.sleep(1)
        for watch in (beside, nobody):
            watch.end()
    assert "foreign load" not in beside.tripped().get("server", {})
    assert "of a CPU" in nobody.tripped()["server"]["foreign load"]


def test_a_guest_beside_busy_loops_stands_in_line_for_a_cpu(lab):
    assert ready(lab, [ExclusiveCpu(False), Neighbour("busy")]) > 0.2


def ready(lab, settings):
    """The share of its time in which a computing guest had no CPU."""
    probe, server = ReadyTime(("guest",)), lab.host("server")
    with applied(settings, lab.hosts):
        before = probe.look(server)
        lab.host("guest").check("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
        between = Between.of(before, probe.look(server))
    assert between.ran() > 0
    return between.waited() / (between.ran() + between.waited())


# On a CPU of its own: elsewhere it would take its turns with all that is busy there.
def test_a_guest_that_never_halts_is_found_running_though_it_has_nothing_to_do(lab):
    owned = [ExclusiveCpu(owners=("guest",))]
    with in_force(lab.hosts) as changes:
        changes.move_to(owned)
        halting = ran(lab)
        changes.move_to([*owned, Halting(False)])
        assert ran(lab) > 0.6 > 0.4 > halting
    assert current(Halting(), lab) == "halts" and neighbours(lab) == []


def ran(lab):
    """The share of a second in which a guest that is left alone runs on its CPU."""
    probe, server = ReadyTime(("guest",)), lab.host("server")
    before = probe.look(server)
    time.sleep(1)
    between = Between.of(before, probe.look(server))
    return between.ran() / between.seconds


# How often the process that has the guest's memory waited for a disk, and how often the program
# that reclaims has come round.
WAITS = """\
pid=$(guest memory) && cut -d' ' -f12 "/proc/${pid%% *}/stat"
pid=$(pgrep -f 'labkit-memor[y]-reclaims-guest$') || { echo 0; exit; }
sed -n 's/^voluntary_ctxt_switches:[[:space:]]*//p' "/proc/$pid/status"
"""


def waits(lab):
    """Both, after the guest has done something."""
    lab.host("guest").check("ls", "/usr/bin")
    return tuple(map(int, lab.host("server").check("sh", "-c", WAITS).split()))


def test_what_is_reclaimed_from_a_guest_it_has_to_wait_for_unless_its_memory_is_locked(lab):
    skip_unless_possible([MemoryLock(), Reclaim()], lab)
    with applied([Reclaim()], lab.hosts):
        before, _ = waits(lab)
        awaited(lambda: waits(lab)[0] > before)
    with applied([MemoryLock(), Reclaim()], lab.hosts):
        before, rounds = waits(lab)
        awaited(lambda: waits(lab)[1] > rounds + 5)
        assert waits(lab)[0] == before


def test_what_a_host_will_show_is_foretold_to_the_letter(lab):
    asked = [Neighbour("busy"), Neighbour("busy", PLACES[1]), Neighbour("memory", PLACES[1])]
    asked += [MemoryLock(), Reclaim(), Halting(False), Neighbour(), Halting()]
    with in_force(lab.hosts) as changes:
        for setting in asked:
            if changes.learn([setting]).steps[0].why:
                continue
            changes.move_to([setting])
            step = changes.steps[setting]
            assert changes.texts[setting] == step.way.foretold(step.text)


def test_what_cannot_be_reclaimed_or_locked_is_refused_with_the_reason(lab):
    asked = [Reclaim(guest="guest2"), MemoryLock(guest="guest3")]
    for step in plan(asked, lab.hosts).steps:
        assert "a file in memory itself (tmpfs)" in step.why
    (at_client,) = plan([Reclaim()], {"server": lab.host("client")}).steps
    reasons = ("is for hosts of kind box, not kvm", "client has no guest of the box")
    assert any(reason in at_client.why for reason in reasons)


def playing(lab):
    hosts = {"client": lab.host("client"), "server": lab.host("guest"), "host": lab.host("server")}
    guests = {"server2": "guest2", "neighbour": "guest2", "neighbour2": "guest3"}
    return hosts | {role: lab.host(guest) for role, guest in guests.items()}


def read(load, text):
    return {sample.metric: sample for sample in load.parse(text)}


def test_both_sides_are_measured_in_the_same_run(lab):
    hosts, load = playing(lab), SharedHost(duration=1)
    found = read(load, load.run(hosts))
    assert len(found["response time"].values) > 50 and found["throughput"].values[0] > 0
    assert 0 < found["host cpu utilisation"].values[0] <= 1.05
    for role in NEIGHBOURS[:2]:
        assert not computes(hosts[role]), "it goes on computing"


def test_two_servers_are_asked_at_once_beside_one_that_computes(lab):
    hosts, load = playing(lab), SharedHost(duration=1, servers=2)
    hosts["neighbour"] = hosts["neighbour2"]
    text = load.run(hosts)
    assert text.count("[Valid Duration]") == 2
    each = [len(Sockperf.parse(parted(text)[name] + "\n")[0].values)
            for name in ("sockperf", "sockperf 2")]  # fmt: skip
    found = read(load, text)
    assert len(found["response time"].values) == sum(each) and min(each) > 20
    assert found["throughput"].values[0] > 0 and "neighbour2 before" not in text


def computes(host):
    return host.run("pgrep", "-x", "awk|mawk").stdout.split()


@pytest.fixture
def asked(lab, monkeypatch):
    """What asks under a key of its own, and the roles of the hosts where it began a load."""
    started, start = [], Host.start

    def spied(self, *words, key, **how):
        if _lasting.SERVES not in key:
            started.append(self.name)
        return start(self, *words, key=key, **how)

    monkeypatch.setattr(Host, "start", spied)
    hosts, key = playing(lab), _lasting.key_of(time.time_ns(), "", "")
    yield lambda load: pairs.run(load, {"": hosts}, key), started
    for host in hosts.values():
        assert host.jobs() == {}
    assert not any(computes(hosts[role]) for role in NEIGHBOURS[:2])


def lost(job, *_, **__):
    raise Unreachable(f"{job}: as if the connection had been lost")


@pytest.mark.torture
def test_a_run_that_was_given_up_begins_again_and_ends_what_was_left(lab, asked, monkeypatch):
    load, (run, started) = SharedHost(duration=7), asked
    with monkeypatch.context() as cut, pytest.raises(Unreachable):
        cut.setattr(Job, "wait", lost)
        run(load)
    found = read(load, run(load))
    assert found["throughput"].values[0] > 0
    assert started == ["client"] * 2


@pytest.mark.parametrize("late", [False, pytest.param(True, marks=pytest.mark.torture)])
def test_a_lost_connection_to_the_client_is_survived(lab, asked, monkeypatch, late):
    load, client, (run, started) = SharedHost(duration=7), lab.host("client"), asked
    if late:
        monkeypatch.setattr(Job, "wait", waits_too_long(Job.wait))
    else:  # on busy CPUs, looks would come too late by themselves
        monkeypatch.setattr(shared_host, "LATE_SECONDS", 60.0)
    with ThreadPoolExecutor(1) as beside:
        text = beside.submit(run, load)
        awaited(lambda: started, seconds=60)
        with pytest.raises(Unreachable):
            client.run("sh", "-c", "kill -9 $(cut -d ' ' -f 4 /proc/$PPID/stat)")
        found = read(load, text.result())
    assert found["throughput"].values[0] > 0
    assert started == ["client"] * (2 if late else 1)


def waits_too_long(wait):
    pauses = [15.0]

    def waiting(*how, **more):
        status = wait(*how, **more)
        time.sleep(pauses.pop() if pauses else 0)
        return status

    return waiting


def test_a_dial_that_is_turned_is_in_force_and_stop_puts_everything_back(lab):
    dials, stop = Dialling(lab, Ping(count=50)), threading.Event()
    steps = Dialling.settings(dials.position)
    before = [current(setting, lab) for setting in steps]
    seen = []

    def tell(words):
        if words == "2 measurements":
            dials.turn("batching and merging", "off")
        if words == "4 measurements":
            seen.append(lab.host("server").check("guest", "get", "batch", "lro").split())
            stop.set()

    dials.measure(stop, tell)
    assert seen == [["1", "off"]]
    measured = {name: len(values) for name, values in dials.values().items()}
    assert measured == {PRESENT: 100, BEFORE: 100}
    assert [current(setting, lab) for setting in steps] == before
