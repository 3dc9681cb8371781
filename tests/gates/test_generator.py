"""Whether an open loop asked in time: by its own text, never by how busy a CPU was."""

import re
import shutil
import signal
import subprocess
import time
from dataclasses import replace

import pytest

from labkit import studies
from labkit.gates import generator, watch
from labkit.gates.gate import NAMES, SHOWN_ONLY
from labkit.host import Host
from labkit.judging import judge
from labkit.lab import Lab
from labkit.running.open_lab import stored_results
from labkit.transports.local import Local
from labkit.verdict import NOT_TESTABLE
from labkit.workloads.fio import Fio
from labkit.workloads.linpack import Linpack
from labkit.workloads.packet_rate import PacketRate
from labkit.workloads.ping import Ping
from labkit.workloads.sockperf import Sockperf
from labkit.workloads.wake_up import WakeUp

PROGRAMS = ("ping",)

MS_4 = Ping(interval=0.004, count=100)


def stopped_ping(seconds):
    """What a real ping printed that stood still for so long in the middle."""
    words = ("ping", "-n", "-D", "-i", str(MS_4.interval), "-c", str(MS_4.count), "127.0.0.1")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    time.sleep(0.1)
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)
    return process.communicate(timeout=60)[0]


def answers(sent, late=0.0, at=50):
    """An answer each ms, all those from one on that much later."""
    lines = [
        f"[{1e9 + n / 1000 + (n >= at) * late + 0.0002:.6f}] 264 bytes from 192.0.2.1: "
        f"icmp_seq={n % 65536} ttl=64 time=0.200 ms\n"
        for n in sent
    ]
    ends = f"{sent[-1]} packets transmitted, {len(sent)} received, 0% packet loss, time 9ms\n"
    return f"PING 192.0.2.1 (192.0.2.1) 256(284) bytes of data.\n{''.join(lines)}\n{ends}"


@pytest.mark.skipif(not shutil.which("ping"), reason="needs iputils-ping")
@pytest.mark.slow
def test_a_real_ping_that_stood_still_was_late():
    found = generator.of_text(MS_4, stopped_ping(0.8))
    assert found.ok is False and re.search(r"missed [4-9]\d\.\d % of the requests", found.why)


def test_a_schedule_that_was_kept_is_kept_whatever_was_lost_and_wherever_numbers_turn():
    some = [n for n in range(65400, 66000) if n % 3]
    assert Ping().behind(answers(some)) == pytest.approx(0, abs=1e-4)
    assert Ping().behind(answers(range(100), late=0.1)) == pytest.approx(0.1 / 0.199, abs=1e-3)
    twice_as_slow = replace(Ping(), interval=0.0005)
    assert twice_as_slow.behind(answers(range(100))) == pytest.approx(0.5, abs=1e-3)


def test_what_does_not_say_when_it_asked_is_not_called_clean():
    mute = re.sub(r"^\[[\d.]+\] ", "", answers(range(100)), flags=re.MULTILINE)
    assert Ping().behind(mute) is None
    assert generator.of_text(Ping(), mute).ok is None
    tripped, untold = generator.beside({}, {}, [Ping()], {"ping.txt": mute})
    assert tripped == {} and untold == {"client": {generator.GATE: generator.MUTE}}


def test_the_worst_of_several_pairs_counts():
    pairs = "".join(
        f"=== labkit: the pair of {name}\n{answers(range(100), late)}"
        for name, late in (("guest", 0.0), ("guest2", 0.05))
    )
    assert generator.of_text(Ping(), pairs).ok is False


@pytest.mark.parametrize(
    "load", [Sockperf(spin="both"), Fio(), Linpack()], ids=lambda one: one.name
)
def test_a_closed_loop_and_a_program_that_nobody_asks_have_no_schedule(load):
    assert generator.of_text(load, "") is None


def test_other_open_loops_say_how_far_they_fell_behind():
    rate = "=== sent 2000 ===\nsockperf: Total of 1500 messages sent in 1.000 sec\n"
    assert PacketRate().behind(rate) == pytest.approx(0.25)
    woken = f"=== ping ===\n{answers(range(100), late=0.1)}=== again ===\n{answers(range(9))}"
    assert WakeUp().behind(woken) == pytest.approx(0.1 / 0.199, abs=1e-3)


# Each of these runs has the gate of before in it: "cpu0 was busy for 100 % of the time".
def test_recorded_pings_that_kept_a_cpu_busy_and_asked_in_time_are_not_doubted():
    study, results = studies.find("lat_ping"), stored_results("lat_ping", "recorded")
    runs = [run for run in results.finished() if run.condition == "Native"]
    assert all(generator.GATE in run.gates["client"] for run in runs)
    found = [generator.gates_of(run, study.loads, results.asked) for run in runs]
    assert not any(generator.GATE in some for one in found for some in one.values())
    verdicts = {one.claim: one for one in judge(study, results)}
    assert verdicts["lat-ping-05"].verdict == NOT_TESTABLE
    assert not any("sent late" in verdict.why for verdict in verdicts.values())


# Their clients share CPUs with all else in the box, and most have no schedule.
@pytest.mark.parametrize("name", ["lat_10us", "lat_cpu_exclusive"])
def test_what_was_said_of_shared_cpus_is_no_remark_on_a_closed_loop(name):
    study, results = studies.find(name), stored_results(name, "recorded")
    assert any(generator.GATE in gate for run in results.runs() for gate in run.gates.values())
    said = [*watch.remarks(results, study.loads), *(one.why for one in judge(study, results))]
    assert not [line for line in said if "load generator" in line or "no CPU time left" in line]


def test_a_busy_client_is_looked_for_where_it_has_cpus_of_its_own_and_asks_in_a_closed_loop():
    hosts = {role: Host(role, "127.0.0.1", Local(role)) for role in ("client", "server")}
    own, box = Lab("own", hosts), Lab("box", hosts, tier="root")
    (condition, *_) = studies.find("lat_ping").conditions
    assert condition.name == "Native"
    asked = [(lab, load) for lab in (own, box) for load in (Sockperf(), Ping(), Fio())]
    clients = [tuple(condition.watch(lab, [load]).clients) for lab, load in asked]
    assert clients == [("client",), (), (), (), (), ()]


def test_a_busy_client_and_other_work_are_shown_and_spoil_no_run():
    tripped = {"client": dict.fromkeys(NAMES, "why")}
    spoilt = {line.split(": ")[1] for line in watch.spoiling(tripped, (), on_one_machine=False)}
    assert spoilt == set(NAMES) - set(SHOWN_ONLY)
