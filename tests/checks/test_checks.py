"""`labkit doctor --lab`: each host, each way between hosts, each condition of a study."""

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from esxi_stand_in import stand_in
from lab_toml import lab_toml, reached_at, table
from sshd import serving
from waiting import free_port

from labkit.check import Check, Finding, look_over
from labkit.checks import all_checks, way
from labkit.checks.conditions import pairs
from labkit.commands.doctor import SIGNS, rendered
from labkit.lab import opened
from tests.ssh import test_dropbear as dropbear

PROGRAMS = ("ssh-keygen",)

HOME = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
STATES = {"ok", "warning", "failed", "not looked at"}
REACHED = ("resolves", "port", "key", "login", "kind")


@pytest.fixture
def sshd(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with serving(tmp_path) as server:
        yield server


def written(sshd, roles=("client",), known_hosts="known_hosts", **changed):
    """A lab.toml of hosts that are all this machine, with something else in some of them."""
    usual = {**reached_at(sshd.address()), "key": "user", "interface": "lo"}
    rows = (table(role, **usual | changed) for role in roles)
    return lab_toml(sshd.folder / "lab.toml", *rows, known_hosts=known_hosts)


def looked(file, names=None, seconds=20.0):
    checks = [check for check in all_checks() if names is None or check.name in names]
    with opened(file) as lab:
        return look_over(lab, checks, pairs(lab), seconds)


def labkit(*words, folder):
    return subprocess.run(
        [sys.executable, "-m", "labkit", *words], capture_output=True, text=True, cwd=HOME,
        env={**os.environ, "LABKIT_OUT": str(folder / "out")},
    )  # fmt: skip


def of(found, check, where="client"):
    return [one for one in found if one.check == check and one.where == where]


# --- the form ------------------------------------------------------------------------------------


def test_every_check_comes_after_the_one_that_it_needs():
    names = [check.name for check in all_checks()]
    assert names[:4] == ["resolves", "port", "key", "login"]
    for check in all_checks():
        assert check.asks and check.about in ("host", "pair", "lab")
        assert not check.after or names.index(check.after) < names.index(check.name)


def test_a_lab_that_is_right_ends_with_0_and_nothing_is_written_on_its_hosts(sshd):
    file = written(sshd, ("client",))
    before = {path.name for path in sshd.folder.iterdir()}
    result = labkit("doctor", "--lab", str(file), "--json", folder=sshd.folder)
    answer = json.loads(result.stdout)
    assert answer.keys() == {"lab", "file", "ready", "counts", "checks"}
    assert set(answer["counts"]) == STATES and answer["file"] == str(file)
    for one in answer["checks"]:
        assert one.keys() == {"check", "where", "state", "found", "said", "fix", "asks"}
        assert one["state"] in STATES and one["found"] and one["asks"]
        assert one["state"] not in ("failed", "warning") or one["fix"], one
    assert answer["ready"] and result.returncode == 0, [
        one for one in answer["checks"] if one["state"] == "failed"
    ]
    assert {path.name for path in sshd.folder.iterdir()} == before, "nothing is written on a host"
    assert all(one["check"] in {check.name for check in all_checks()} for one in answer["checks"])


def test_a_client_and_a_server_that_are_one_machine_are_no_lab(sshd):
    file = written(sshd, ("client", "server"))
    result = labkit("doctor", "--lab", str(file), "--json", folder=sshd.folder)
    answer = json.loads(result.stdout)
    failed = [one for one in answer["checks"] if one["state"] == "failed"]
    assert result.returncode == 1
    assert {one["where"] for one in answer["checks"]} >= {"client", "server", "client to server"}
    assert [one["found"].partition(",")[0] for one in failed] == ["both are one machine"]
    assert "[hosts.server]" in failed[0]["fix"]


def test_for_people_each_thing_that_is_wrong_has_what_mends_it_below(sshd):
    found = looked(written(sshd, interface="eth77"), (*REACHED, "interface"))
    counts = {state: sum(one.state == state for one in found) for state in SIGNS}
    lines = [line.strip() for line in rendered("mine", found, counts, "lab.toml").splitlines()]
    at = next(i for i, line in enumerate(lines) if line.startswith("XX  interface"))
    assert "eth77" in lines[at] and any("mend it:" in line for line in lines[at : at + 20])
    at = next(i for i, line in enumerate(lines) if line.startswith("next: "))
    assert "1 failed" in lines[at - 1] and lines[at + 1].startswith("ready: ")


# --- what can be wrong ---------------------------------------------------------------------------


WRONG = {
    "resolves": ({"control": "no-such-host.invalid"}, "control ="),
    "port": ({"port": None}, "systemctl enable --now ssh"),
    "key": ({"known_hosts": "empty"}, "labkit trust client --lab"),
    "login": ({"user": "nobody"}, "ssh-copy-id -i"),
    "interface": ({"interface": "eth77"}, "interface ="),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found_by_its_check_and_has_what_mends_it(sshd, name):
    changed, fix = WRONG[name]
    port = free_port()
    changed = {key: port if value is None else value for key, value in changed.items()}
    found = looked(written(sshd, **changed), (*REACHED, "interface"))
    (wrong,) = [one for one in found if one.state == "failed"]
    assert wrong.check == name and fix in wrong.fix and wrong.found
    after = [one.state for one in found[found.index(wrong) + 1 :]]
    assert set(after) <= {"not looked at"}


def test_the_command_that_is_named_for_an_unknown_key_mends_it(sshd):
    file = written(sshd, known_hosts="own")
    (wrong,) = of(looked(file, REACHED), "key")
    words = wrong.fix.split()[1:]
    print_ = (sshd.folder / "host_ed25519.pub").as_posix()
    fingerprint = subprocess.run(
        ["ssh-keygen", "-lf", print_], capture_output=True, text=True
    ).stdout.split()[1]
    result = labkit(*words, "--yes", fingerprint, folder=sshd.folder)
    assert result.returncode == 0, result.stderr
    found = looked(file, (*REACHED, "machine"))
    assert {one.state for one in found} == {"ok"}, found


def test_a_clone_of_the_machine_is_told_apart(sshd):
    file = written(sshd, known_hosts="own")
    text = (sshd.folder / "known_hosts").read_text()
    (sshd.folder / "own").write_text(text)
    (noted,) = of(looked(file, (*REACHED, "machine")), "machine")
    assert noted.state == "warning" and noted.fix.startswith("labkit trust client")
    assert labkit(*noted.fix.split()[1:], folder=sshd.folder).returncode == 0
    pins = sshd.folder / "own.machines"
    pins.write_text(pins.read_text().replace('"machine-id ', '"machine-id other'))
    (other,) = of(looked(file, (*REACHED, "machine")), "machine")
    assert other.state == "failed" and "another machine" in other.found


def test_a_change_that_nobody_put_back_is_found_with_the_command_that_does(sshd):
    file = written(sshd, ("server",))
    knob = sshd.folder / "knob"
    knob.write_text("old\n")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import os\nfrom pathlib import Path\nfrom knobs import Knob\n"
        "from labkit.changes.in_force import applied\nfrom labkit.lab import Lab\n"
        "lab = Lab.read(Path(sys.argv[2]))\n"
        "with applied([Knob(sys.argv[3], 'new')], lab.hosts): os._exit(0)"
    )
    words = [sys.executable, "-c", code, HOME / "tests/helpers", file, knob]
    subprocess.run(words, check=True, cwd=HOME)
    assert knob.read_text() == "new\n"
    (left,) = of(looked(file, (*REACHED, "unfinished")), "unfinished", "server")
    assert left.state == "failed" and left.fix == f"labkit restore server --lab {file}"
    assert labkit(*left.fix.split()[1:], folder=sshd.folder).returncode == 0
    assert knob.read_text() == "old\n"
    (now,) = of(looked(file, (*REACHED, "unfinished")), "unfinished", "server")
    assert now.state == "ok"


def test_a_condition_says_why_it_cannot_be_measured(sshd):
    found = looked(written(sshd, ("client", "server")), (*REACHED, "conditions"))
    rows = {one.where: one for one in found if one.check == "conditions"}
    assert rows["lat_ping: Native"].state == "ok"
    assert "no host for it" in rows["lat_ping: VM-Default"].found


# --- in time -------------------------------------------------------------------------------------


def test_a_port_that_accepts_and_stays_silent_costs_seconds(sshd, monkeypatch):
    monkeypatch.setattr(way, "BANNER_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        found = looked(written(sshd, port=silent.getsockname()[1]), REACHED)
        assert time.monotonic() - start < 5
    (port,) = of(found, "port")
    assert port.state == "failed" and port.said == "timed out"


def test_a_host_that_hangs_is_left_and_the_others_are_told_of(sshd, tmp_path):
    def hangs(place):
        if place.role == "server":
            place.host.check("sleep", "60")
        return [Finding("ok", "well")]

    checks = [c for c in all_checks() if c.name in REACHED]
    checks += [Check("x", hangs, after="login", name="hangs"),
               Check("y", lambda _: [], after="hangs", name="then")]  # fmt: skip
    start = time.monotonic()
    with opened(written(sshd, ("client", "server"))) as lab:
        found = look_over(lab, checks, (), seconds=4.0)
        assert time.monotonic() - start < 12
    assert of(found, "hangs")[0].state == "ok"
    assert "not answered" in of(found, "hangs", "server")[0].found
    assert of(found, "then", "server")[0].state == "not looked at"


# --- other hosts ---------------------------------------------------------------------------------


def test_an_esxi_host_is_told_its_power_policy_and_the_command_mends_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with stand_in.standing_in(tmp_path) as esxi:
        server = table("server", **reached_at(esxi.host.transport.at), interface="vmnic1")
        file = lab_toml(tmp_path / "lab.toml", server, known_hosts="known_hosts")
        found = looked(file)
        (kind,) = of(found, "kind", "server")
        assert kind.found == "esxi"
        policy, machines = of(found, "esxi", "server")
        assert policy.state == "warning" and "Balanced" in policy.found
        assert machines.found == "virtual machines: lab, shop"
        assert not of(found, "tools", "server"), "what is for Linux is not asked of ESXi"
        esxi.host.check("sh", "-c", policy.fix)
        assert of(looked(file), "esxi", "server")[0].state == "ok"


def test_a_small_host_behind_dropbear_is_looked_at_as_any_other(tmp_path, monkeypatch):
    if not dropbear.DROPBEAR or os.geteuid():
        pytest.skip("no dropbear here; to get it: make system-test")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with dropbear.dropbear(tmp_path) as (_, port):
        at = {"control": "127.0.0.1", "port": port, "user": "root", "key": "user"}
        client = table("client", **at, interface="lo")
        file = lab_toml(tmp_path / "lab.toml", client, known_hosts="known_hosts")
        found = looked(file, (*REACHED, "tools", "disk", "clock", "load"))
    assert [one for one in found if one.state == "failed"] == []
    assert "dropbear" in of(found, "port")[0].found
    assert {"tools", "load", "disk", "clock"} <= {one.check for one in found}


def test_conditions_are_told_once_for_each_reason_and_never_the_next_thing_to_mend():
    lacks = "cannot be measured: the lab has no host for it: no guest"
    found = [
        Finding("ok", "root", where="client", check="root"),
        Finding("ok", "can be measured", where="lat_ping: Native", check="conditions"),
        *(Finding("warning", lacks, fix="a table", where=f"lat_ping: {name}", check="conditions")
          for name in ("VM-Default", "VM-SRIOV")),
    ]  # fmt: skip
    said = rendered("mine", found, {"ok": 2, "warning": 2}, "lab.toml")
    assert said.count("no guest") == 1 and "VM-Default; VM-SRIOV" in said
    run, ready = "next: labkit run lat_ping --quick --where lab.toml", "ready: lat_ping (1 of 3)"
    assert said.endswith(f"{run}\n{ready}; to do more: a table")
    broken = Finding("warning", "a governor", fix="cpupower", where="client", check="power")
    said = rendered("mine", [*found, broken], {"ok": 2}, "lab.toml")
    assert said.endswith(f"{run}\n{ready}; to do more: cpupower")
    failed = replace(broken, state="failed")
    assert "next: cpupower\nready: lat_ping" in rendered("mine", [*found, failed], {}, "lab.toml")
