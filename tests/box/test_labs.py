"""Hosts of the box as a lab of one's own, by a lab.toml written by hand: no [box] in it."""

import json
from pathlib import Path

import pytest
from boxes import NAME
from lab_toml import described
from leftovers import another

from labkit.gates import gate
from labkit.lab import opened

PROGRAMS = ("iptables",)

pytestmark = [pytest.mark.box, pytest.mark.slow]
BARE = f"{NAME}-5"


@pytest.fixture
def bare(tmp_path):
    """Two hosts without a guest, as somebody would describe two servers in a basement."""
    with another(BARE, "[hosts.client]\n[hosts.server]\n") as lab:
        known = Path(lab.path).parent / "known_hosts"
        # The hosts share a machine with whatever else the tests do.
        yield described(lab, tmp_path / "mine.toml", gate.NAMES, known_hosts=known)


@pytest.mark.when_changed("labkit/checks/", "labkit/lab.py", "labkit/running/")
def test_two_bare_linux_hosts_measure_native_and_say_what_they_cannot(bare, labkit):
    done = labkit("doctor", "--lab", str(bare), "--json")
    said = json.loads(done.stdout)
    failed = [one for one in said["checks"] if one["state"] == "failed"]
    assert done.returncode == 0 and said["ready"], failed
    rows = {(one["check"], one["where"]): one for one in said["checks"]}
    for check in ("path", "packet", "ports"):
        assert rows[check, "client to server"]["state"] == "ok"
    assert rows["conditions", "lat_ping: Native"]["state"] == "ok"
    assert rows["conditions", "lat_ping: VM-SRIOV"]["state"] == "warning"
    run = ("run", "lat_ping", "--where", str(bare), "-p", "repeats=3", "-p", "count=100", "--json")
    done = labkit(*run)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert {row["condition"] for row in answer["rows"]} == {"Native"}
    assert {verdict["verdict"] for verdict in answer["verdicts"]} == {"not testable here"}
    assert any("the lab has no host for it" in verdict["why"] for verdict in answer["verdicts"])
    assert answer["note"] == "", "real hosts, as far as their lab.toml says"


@pytest.mark.when_changed("labkit/checks/", "labkit/lab.py", "labkit/running/")
def test_what_a_firewall_drops_is_found_with_the_line_that_lets_it_through(bare, labkit):
    with opened(bare) as lab:
        server = lab.host("server")
        if not server.run("iptables", "-A", "INPUT", "-p", "tcp", "--dport", "20000", "-j",
                          "DROP").ok:  # fmt: skip
            pytest.skip("this kernel has no iptables")
        (dropped,) = ports(labkit, bare)
        assert dropped["state"] == "warning"
        assert "20000 (servers of netperf and sockperf)" in dropped["found"]
        server.check("sh", "-c", dropped["fix"].removeprefix("on server: "))
        (open_now,) = ports(labkit, bare)
        assert open_now["state"] == "ok"


def ports(labkit, file):
    said = json.loads(labkit("doctor", "--lab", str(file), "--json").stdout)
    return [one for one in said["checks"] if one["check"] == "ports"]
