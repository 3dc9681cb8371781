"""The box's hosts are hosts of their own, reached by SSH like any others."""

import dataclasses
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from boxes import NAME

from labkit import box
from labkit.workloads.ping import Ping

PROGRAMS = ("find", "setpriv")

pytestmark = pytest.mark.box

ROLES = ("client", "server", "guest")


@pytest.mark.parametrize("role", ROLES)
def test_each_host_has_a_name_links_and_files_of_its_own(lab, role):
    host = lab.host(role)
    assert host.check("hostname").strip() == f"{NAME}-{role}"
    assert host.check("id", "-u").strip() == "0"
    links = host.check("ls", "/sys/class/net").split()
    assert host.interface in links and "eth0" not in links
    done = host.run("touch", "/etc/labkit-was-here", "/usr/labkit-was-here")
    assert done.code == 1 and "Read-only" in done.stderr
    seen = host.check("ls", "-A", "/root").split()
    assert set(seen) <= {".local"}, "labkit's own jobs and journals may be there"


AS_OTHER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
OPEN_TO_ALL = (
    "find /run /tmp /var/tmp ! -type l ! -type c ! -user 65534 -writable 2> /dev/null; true"
)


# A socket that may be written to may be spoken to: so much of monitors of guests.
@pytest.mark.parametrize("role", ("client", "server"))
def test_another_user_of_a_host_writes_to_nothing_of_labkit_s_and_reads_no_key(lab, role):
    host = lab.host(role)
    open_to_all = host.check(*AS_OTHER, "sh", "-c", OPEN_TO_ALL).split()
    assert set(open_to_all) <= {"/tmp", "/var/tmp"}
    for secret in ("host_key", "etc/shadow"):
        assert host.run("test", "-s", f"/run/labkit/{secret}").ok
        assert not host.run(*AS_OTHER, "cat", f"/run/labkit/{secret}").ok


def test_another_user_of_the_machine_writes_to_nothing_of_a_box_and_reads_no_key(lab_file, lab):
    places = [Path(lab_file).parent, *Path("/var/tmp").glob(f"labkit-box-{NAME}")]
    words = (*AS_OTHER, "find", *map(str, places), "-writable", "!", "-type", "l")
    assert subprocess.run(words, capture_output=True, text=True, check=False).stdout == ""
    key = Path(lab_file).parent / "key"
    assert key.exists() and subprocess.run([*AS_OTHER, "cat", key], check=False).returncode


def test_client_and_server_have_different_cpus_where_there_are_two(lab):
    allowed = {
        role: lab.host(role).check("grep", "Cpus_allowed_list", "/proc/1/status").split()[1]
        for role in ("client", "server")
    }
    shown = {host.role: host.cpus for host in box.status(NAME).hosts}
    assert (allowed["client"] != allowed["server"]) == (shown["client"] != shown["server"])


@pytest.mark.parametrize("role", ["server", "guest"])
def test_the_client_reaches_the_others_on_the_data_network(lab, role):
    hosts = {"client": lab.host("client"), "server": lab.host(role)}
    sample = Ping.parse(Ping(count=100).run(hosts))[0]
    assert sample.lost == 0
    assert len(sample.values) == 100


def test_a_round_trip_to_the_guest_takes_longer_than_to_its_host(lab):
    median = {}
    for role in ("server", "guest"):
        hosts = {"client": lab.host("client"), "server": lab.host(role)}
        median[role] = np.median(Ping.parse(Ping(count=500).run(hosts))[0].values)
    assert median["guest"] > median["server"]


def test_status_tells_what_the_box_is_made_of(lab_file):
    status = json.loads(json.dumps(dataclasses.asdict(box.status(NAME))))
    assert (status["state"], status["tier"], status["accelerator"]) == ("up", "root", "uml")
    assert [host["role"] for host in status["hosts"]] == list(ROLES)
    assert all(host["alive"] for host in status["hosts"])
    assert status["guests"][0]["state"] == "running"
    assert NAME in box.names()


def test_bringing_up_what_is_up_changes_nothing(lab_file, lab):
    before = lab.host("server").check("guest", "pids")
    assert box.up(NAME) == lab_file
    assert lab.host("server").check("guest", "pids").split()[0] == before.split()[0]


def test_a_guest_that_crashed_is_started_again_by_up(lab_file, lab):
    server = lab.host("server")
    server.run("sh", "-c", "kill -KILL $(guest pids)")
    while server.check("guest", "pids"):
        pass
    assert box.status(NAME).guests[0].state == "stopped"
    told = []
    box.up(NAME, told.append)
    assert "booting guest" in told
    assert lab.host("guest").check("hostname").strip() == f"{NAME}-guest"


def test_what_ends_a_box_that_has_a_name_is_said_with_its_name(lab_file, labkit):
    assert f"`labkit box down --name {NAME}` ends it" in labkit("box", "up", "--name", NAME).stdout


def test_hosts_and_their_guest_answer_at_once_and_tell_their_clocks(lab):
    names = {name: done.stdout.strip() for name, done in lab.fleet.run("hostname").check().items()}
    assert len(set(names.values())) == len(lab.hosts)
    for reading in lab.fleet.clocks().check().values():
        assert abs(reading.offset) < 5 and 0 < reading.round_trip < 1
