"""What a host says of itself: read as it is, and nothing that is nobody's business."""

import os
import re
import shutil
import subprocess

import pytest
from brought import HERE
from sshd import reached, serving

from labkit.results import Results, Run
from labkit.runs import facts

PROGRAMS = ("crun", "ping", "sockperf")

SAID = """\
kernel=Linux 6.1.0-18-amd64
cpu=Intel(R) Xeon(R) CPU E5-2640 0 @ 2.50GHz
microcode=0x718
governor=
booted_with=nohz=off intel_idle.max_cstate=0
mitigation l1tf=Mitigation: PTE Inversion; VMX: conditional cache flushes, SMT disabled
nic eth0=driver=ixgbe mtu=1500 speed=10000
a line of something else
now=1700000000.123456789
"""


def test_facts_are_read_by_name_and_what_a_host_lacks_is_left_out():
    found = facts.parse(SAID)
    assert found["microcode"] == "0x718" and "governor" not in found
    assert found["nic eth0"] == "driver=ixgbe mtu=1500 speed=10000"
    assert found["mitigation l1tf"].startswith("Mitigation: PTE")
    assert found["booted_with"] == "nohz=off intel_idle.max_cstate=0"
    assert facts.parse("") == {} == facts.parse("\x1b[31m\n=\n")


def test_a_real_host_tells_its_facts_and_how_far_its_clock_is_off():
    found = facts.of_host(HERE)
    assert found["kernel"].startswith("Linux") and int(found["cpus"]) >= 1
    assert any(name.startswith("nic lo") for name in found)
    words = re.fullmatch(r"([+-][\d.]+) within ([\d.]+)", found["clock_offset"])
    off, bound = map(float, words.groups())
    assert abs(off) <= bound + 0.001


def test_a_shell_reads_most_facts_itself_without_starting_a_program():
    """A guest without hardware support takes tens of milliseconds to start one."""
    alone = {"env": {"PATH": "/nowhere"}, "capture_output": True, "text": True, "check": True}
    found = facts.parse(subprocess.run(["/bin/sh", "-c", facts.COMMAND], **alone).stdout)
    whole = facts.of_host(HERE)
    started = ("machine", "cpus", "clock_offset", "network", "nic ")
    assert len(found) > 8 and {"kernel", "boot", "cpu", "memory"} <= found.keys()
    alone, asked = (
        {n: v for n, v in facts_of.items() if not n.startswith(started)}
        for facts_of in (found, whole)
    )
    assert alone == asked


def test_the_programs_that_measure_tell_their_versions(tmp_path, monkeypatch):
    for name, said in (("sockperf", "sockperf, version 9.9\nbuilt by hand"), ("crun", "")):
        (tmp_path / name).write_text(f"#!/bin/sh\n[ $1 = --version ] && echo '{said}' >&2\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    asked = ("sockperf", "crun", "ping", "absent")
    found = facts.of_host(HERE, asked)
    assert found["version sockperf"] == "sockperf, version 9.9" and "version crun" not in found
    assert "version absent" not in found
    if shutil.which("ping"):
        assert "ping" in found["version ping"]


@pytest.mark.slow
def test_what_is_kept_of_a_host_says_at_which_of_its_addresses_it_answered(tmp_path):
    """F13: its name may lead to IPv6 first, and to another machine tomorrow."""
    with serving(tmp_path) as server:
        known = (server.folder / "known_hosts").read_text().replace("127.0.0.1", "localhost")
        (server.folder / "known_hosts").write_text(known)
        with reached(server.address(control="localhost")) as host:
            assert host.transport.reached_at == ""  # nobody has been there yet
            assert facts.of_host(host)["reached_at"] == "127.0.0.1"
    assert "reached_at" not in facts.of_host(HERE)


def test_words_of_the_kernel_that_may_be_secret_are_not_kept():
    said = facts.of_host(HERE).get("booted_with", "")
    assert all(re.match(r"\w+[.=]", word) for word in said.split())
    assert "root=" not in said and "auth" not in said and "token" not in said


def test_a_run_keeps_what_it_was_measured_by_and_on(tmp_path):
    told = facts.of_run({"client": HERE})
    assert re.match(r"\d+\.\d+", told["versions"]["labkit"]) and "numpy" in told["versions"]
    begun = Results.begin(tmp_path / "r", {"study": "lat_ping"})
    Results(begun.path, begun.asked, told).keep(Run("Native", 1, 1, "finished"), {})
    (run,) = Results.open(begun.path).runs()
    assert run.facts["hosts"]["client"]["kernel"] == told["hosts"]["client"]["kernel"]
