import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import alive, awaited

from labkit.errors import ResultsError
from labkit.gates.gate import COLLECT, Gate, collect, gates, tripped

PROGRAMS = ("ip", "python3", "tc", "unshare")

BUSY_LOOP = "while True: pass"


def counted(*before):
    """What this machine counts, by the same command that hosts are asked with."""
    result = subprocess.run([*before, *COLLECT], capture_output=True, text=True, check=True)
    return result.stdout


@pytest.fixture(scope="module")
def quiet():
    return counted()


def later(text, seconds=10.0):
    """The same machine so much later, when each CPU was idle all the time."""
    text = re.sub(r"(?<=date:)[\d.]+", lambda m: f"{float(m[0]) + seconds:.9f}", text)
    text = re.sub(r"(?<=uptime:)[\d.]+", lambda m: f"{float(m[0]) + seconds:.2f}", text)
    return more(text, "/proc/stat:cpu0", 4, 100 * seconds, "/proc/stat:cpu ", 4, 100 * seconds)


def more(text, *changes):
    """Counters risen: lines that begin so, the place of the number in them, by how much."""
    lines = text.splitlines()
    for at in range(len(lines)):
        for begin, place, by in zip(changes[::3], changes[1::3], changes[2::3], strict=True):
            if lines[at].startswith(begin):
                line, words = lines[at], lines[at].split(" ")
                place = place + 1 if line.startswith("/proc/stat:cpu ") else place
                head, _, last = words[place].rpartition(":")
                words[place] = f"{head}:{int(last) + int(by)}" if head else str(int(last) + int(by))
                lines[at] = " ".join(words)
    return "\n".join(lines)


def one(name, found):
    return next(gate for gate in found if gate.name == name)


@pytest.mark.slow
def test_a_host_is_asked_in_one_command(ssh):
    assert "/proc/uptime:" in collect(ssh)


def test_on_a_quiet_machine_no_gate_says_that_something_was_wrong(quiet):
    found = gates(quiet, later(quiet), 10.0, limit=20, client=True)
    assert list(tripped(found)) == []
    assert len({gate.name for gate in found}) == len(found) == 10
    told = [gate.name for gate in found if gate.ok]
    assert {"steal", "swap", "retransmits", "clock step", "paused", "foreign load", "time"} <= set(
        told
    )


def tcp(text, name):
    names = next(line for line in text.splitlines() if "snmp:Tcp: Rto" in line).split(" ")
    return names.index(name)


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("steal", lambda t: more(t, "/proc/stat:cpu ", 8, 50), "4.8 % of its CPU time was stolen"),
        ("swap", lambda t: more(t, "/proc/vmstat:pswpin", 1, 7), "7 pages were swapped"),
        ("clock step", lambda t: re.sub(r"(?<=date:)\d+", lambda m: str(int(m[0]) - 60), t),
         "moved -60.00 s against its uptime"),
        ("paused", lambda t: re.sub(r"(?<=uptime:)\d+", lambda m: str(int(m[0]) - 5), t),
         "its clock ran 5.0 s while ours ran 10.0 s"),
        ("paused", lambda t: re.sub(r"(?<=uptime:)\d+", "3", t), "it was started again"),
        ("busy client", lambda t: more(t, "/proc/stat:cpu0", 1, 100_000), "cpu0 was busy"),
    ],
    ids=["steal", "swap", "clock", "paused", "restart", "saturated"],
)  # fmt: skip
def test_a_gate_trips_when_its_counter_rises(quiet, name, change, why):
    found = one(name, gates(quiet, change(later(quiet)), 10.0, client=True))
    assert found.ok is False and why in found.why


def test_retransmitted_segments_count_by_their_share(quiet):
    sent, again = tcp(quiet, "OutSegs"), tcp(quiet, "RetransSegs")
    line = next(line for line in quiet.splitlines() if re.match(r"/proc/net/snmp:Tcp: \d", line))[
        :22
    ]
    few = more(later(quiet), line, sent, 100_000, line, again, 50)
    many = more(later(quiet), line, sent, 1_000, line, again, 50)
    assert one("retransmits", gates(quiet, few, 10.0)).ok
    found = one("retransmits", gates(quiet, many, 10.0))
    assert found == Gate("retransmits", False, "50 of 1000 TCP segments were sent again")


def test_an_error_of_a_network_card_names_card_and_counter(quiet):
    card = "/sys/class/net/eth9/statistics/rx_crc_errors:"
    found = one("NIC errors", gates(quiet + card + "3\n", later(quiet) + "\n" + card + "5\n", 10.0))
    assert found == Gate("NIC errors", False, "eth9 rx_crc_errors 2")


def test_heat_and_a_cpu_limit_trip_one_gate(quiet):
    heat = "/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count:"
    found = one("throttling", gates(quiet + heat + "1\n", later(quiet) + "\n" + heat + "4\n", 10.0))
    assert found == Gate("throttling", False, "its processor throttled itself 3 times for heat")
    limit = "/sys/fs/cgroup/lab/cpu.stat:throttled_usec "
    some, lots = (later(quiet) + f"\n{limit}{n}\n" for n in (50_000, 2_000_000))
    assert one("throttling", gates(quiet + limit + "0\n", some, 10.0)).ok
    found = one("throttling", gates(quiet + limit + "0\n", lots, 10.0))
    assert found.why == "its CPU limit held it back for 20.0 % of the time"


def test_what_took_too_long_says_so(quiet):
    found = one("time", gates(quiet, later(quiet), 10.0, limit=5))
    assert found == Gate("time", False, "it took 10.0 s of 5 s")


def test_a_host_without_the_counters_cannot_tell_and_does_not_pass():
    # What ESXi's shell has: BusyBox's date without %N, and no /proc of Linux.
    found = gates("date:1795255773.%N\nend:\n", "date:1795255783.%N\nend:\n", 10.0, client=True)
    assert [gate.name for gate in found if gate.ok is not None] == ["time"]
    assert all("this host" in gate.why for gate in found if gate.ok is None)


def test_a_step_of_our_own_clock_spoils_a_run_on_whatever_host(quiet):
    told = one("clock step", gates(quiet, later(quiet), 10.0, step=-3600.0))
    assert told.ok is False and "the controller's time of day moved -3600.00 s" in told.why
    mute = "date:1795255773.%N\nend:\n"
    assert one("clock step", gates(mute, mute, 0.0, step=0.2)).ok is False
    assert one("clock step", gates(quiet, later(quiet), 10.0, step=0.05)).ok


def test_a_clock_of_whole_seconds_is_given_a_second_more(quiet):
    coarse = [re.sub(r"(date:\d+)\.\d+", r"\1.%N", text) for text in (quiet, later(quiet, 10.9))]
    assert one("clock step", gates(*coarse, 10.9)).ok


def busy():
    return alive([sys.executable, "-c", BUSY_LOOP])


def has_worked(process, seconds):
    """Wait until a process has had so much more CPU time, however busy the machine is."""
    enough = cpu_seconds(process) + seconds
    awaited(lambda: cpu_seconds(process) >= enough, why="it does not come to work")


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(while_running, *, ours=()):
    begun, before = time.monotonic(), counted()
    while_running()
    return gates(before, counted(), time.monotonic() - begun, names=ours)


@pytest.mark.slow
def test_a_process_that_was_there_before_and_took_cpu_time_is_foreign_load():
    with busy() as process:
        name = Path(f"/proc/{process.pid}/comm").read_text().strip()
        found = one("foreign load", measured(lambda: has_worked(process, 0.4)))
    assert found.ok is False and re.search(rf"{name} took \d+\.\d % of a CPU", found.why)


@pytest.mark.slow
def test_the_workload_itself_and_the_studys_own_servers_are_not_foreign():
    mine = Path("/proc/self/comm").read_text().strip()

    def workload():
        with busy():
            time.sleep(0.5)

    with busy() as server:
        name = Path(f"/proc/{server.pid}/comm").read_text().strip()
        found = one("foreign load", measured(workload, ours=[name, mine]))
    assert f"{name} took" not in found.why


@pytest.mark.parametrize(
    "text", ["", "no such file", "date:1\n", "date:x\nend:\n", "date:1.5\n/proc/uptime:\nend:\n",
             "date:1.5\n/proc/stat:cpu 1 x\nend:\n", "date:1.5\n/proc/net/snmp:Tcp: A B\nend:\n"],
    ids=["empty", "words", "cut", "date", "uptime", "stat", "snmp"],
)  # fmt: skip
def test_text_that_is_no_collection_is_refused(quiet, text):
    with pytest.raises(ResultsError, match=r"counters (are incomplete|of a host cannot be read)"):
        gates(quiet, text, 10.0)


def test_a_process_name_with_spaces_and_brackets_is_read(quiet):
    rest = "S 1 77 77 0 -1 4194304 1 0 0 0 {} 3 0 0 20 0 1 0 500 1 1"
    line = f"/proc/99999999/stat:77 (a) b (c) {rest}\n"
    found = gates(quiet + line.format(5), later(quiet) + "\n" + line.format(605), 10.0)
    assert one("foreign load", found).why == "a) b (c took 60.0 % of a CPU"


# --- on a real kernel, as root ------------------------------------------------------------------


def works(*words):
    return os.geteuid() == 0 and shutil.which(words[0]) and not subprocess.run(words).returncode


@pytest.mark.box
def test_a_host_whose_clock_jumped_ahead_is_told_from_one_that_ran_through():
    ahead = ("unshare", "--time", "--boottime", "30", "--fork")
    if not works(*ahead, "true"):
        pytest.skip("this kernel has no time namespaces")
    found = one("paused", gates(counted(), counted(*ahead), 1.0))
    assert found.ok is False and "its clock ran 30." in found.why


@pytest.mark.box
def test_segments_lost_on_a_real_link_are_counted():
    script = r"""
    ip link set lo up mtu 1500
    # A queue of few packets loses what comes in bursts.
    tc qdisc add dev lo root tbf rate 100mbit burst 4k limit 8k || exit 1
    {collect} >"$1"
    python3 - <<'END'
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
def swallow():
    peer = server.accept()[0]
    while peer.recv(1 << 16):
        pass
threading.Thread(target=swallow, daemon=True).start()
with socket.create_connection(server.getsockname()) as sender:
    for _ in range(400):
        sender.sendall(b"x" * 20_000)
END
    {collect} >"$2"
    """.replace("{collect}", COLLECT[2])
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/{name}" for name in ("before", "after")]
        result = subprocess.run(["unshare", "--net", "sh", "-c", script, "sh", *files], timeout=60)
        if result.returncode:
            pytest.skip("no tbf here")
        found = one("retransmits", gates(*(Path(file).read_text() for file in files), 1.0))
    assert found.ok is False


def own_limit():
    """A new cgroup of the processor's controller, whichever version this machine has."""
    for root, quota in [("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"), ("/sys/fs/cgroup", "cpu.max")]:
        group = Path(root) / f"labkit-gate-{os.getpid()}"
        try:
            group.mkdir()
            (group / quota).write_text("10000" if "quota" in quota else "10000 100000")
        except OSError:
            if group.exists():
                group.rmdir()
            continue
        return group
    pytest.skip("no cgroup to limit here")


@pytest.mark.box
def test_a_real_cpu_limit_that_held_the_host_back_is_told():
    group = own_limit()
    script = f"""echo $$ >{group}/cgroup.procs
    {COLLECT[2]}
    "{sys.executable}" -c 'import time; e = time.monotonic() + 1
while time.monotonic() < e: pass'
    {COLLECT[2]}"""
    try:
        both = subprocess.run(["sh", "-c", script], capture_output=True, text=True).stdout
    finally:
        group.rmdir()
    before, after = both.split("end:\n")[:2]
    found = one("throttling", gates(before + "end:\n", after + "end:\n", 1.0))
    assert found.ok is False and "its CPU limit held it back" in found.why
