"""A box of a user who may do nothing: what it has, what it cannot, and that nothing stays."""

import json
import os
import random
import signal
import sys
import tempfile
from pathlib import Path
from shlex import quote

import pytest
from boxes import NAME
from leftovers import awaited, maker_killed
from plain_user import UID, PlainUser

from labkit import box

PROGRAMS = ("ping",)

pytestmark = [
    pytest.mark.box,
    pytest.mark.slow,
    pytest.mark.when_changed("labkit/box/"),
]

MEASURED = """\
import json, sys
from labkit import find_study
from labkit.errors import LabkitError
from labkit.lab import opened
from labkit.running import loop, possible
from labkit.running.open_lab import study_results, with_load
from pathlib import Path
with opened(Path(sys.argv[1])) as lab:
    study = find_study("lat_ping")
    slower = with_load(study, interval=0.002, count=100)
    results = study_results(slower, lab, str(lab.path), label="plain")
    loop.run(slower, lab, results, repeats=1)
    try:
        loop.run(study, lab, results, repeats=1)
    except LabkitError as refused:
        said = str(refused)
    whys = {v.claim: v.why for v in slower.judge(results)}
    kept = json.loads((results.path / "study.json").read_text())["lab"]
    ran = [run.condition for run in results.runs()]
    print(json.dumps([possible.refusals(study, lab), said, ran, whys, kept]))
"""


@pytest.fixture(scope="module")
def user():
    # Nobody else may look into the folder that pytest keeps.
    with tempfile.TemporaryDirectory() as home:
        found = PlainUser(Path(home))
        yield found
        found.labkit("box", "down", "--name", NAME)
        assert found.processes() == {}


@pytest.fixture(scope="module")
def up(user):
    done = user.labkit("box", "up", "--name", NAME, "--json", timeout=200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ssh(user, role, *words):
    done = user.labkit("box", "ssh", "--name", NAME, role, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# The box of root has the same name, and is up meanwhile.
def test_a_plain_user_has_hosts_of_his_own_and_a_guest(lab_file, user, up):
    assert (up["state"], up["tier"], up["topology"]) == ("up", "user", "loopback")
    assert [(host["role"], host["alive"]) for host in up["hosts"]] == [
        ("client", True), ("server", True), ("guest", True),
    ]  # fmt: skip
    asks = ("sh", "-c", "id -u; uname -r")
    (me, host), (root, guest) = (
        ssh(user, "server", *asks).split(),
        ssh(user, "guest", *asks).split(),
    )
    assert (me, root) == (str(UID), "0") and host != guest
    assert box.status(NAME).tier == "root" and box.status(NAME).state == "up"
    again = json.loads(user.labkit("box", "up", "--name", NAME, "--json").stdout)
    assert [h["port"] for h in again["hosts"]] == [h["port"] for h in up["hosts"]]


def test_a_study_says_of_each_condition_why_it_cannot_be_tested_there(user, up):
    if user.run("ping", "-n", "-c", "1", "127.0.0.1").returncode:
        pytest.skip("this machine lets no plain user ping (net.ipv4.ping_group_range)")
    (user.home / "measured.py").write_text(MEASURED)
    done = user.run(sys.executable, user.home / "measured.py", up["lab"])
    assert done.returncode == 0, done.stderr
    refused, said, ran, whys, lab = json.loads(done.stdout)
    assert set(refused) >= {"Native", "VM-Default", "VM-SRIOV", "VM-Latency-SRIOV"}
    assert all(f"{name}: {why}" in said for name, why in refused.items())
    assert "2ms" in refused.pop("Native")
    assert all("guest" in why for why in refused.values()), refused
    assert ran == ["Native"] and (lab["tier"], lab["accelerator"]) == ("user", up["accelerator"])
    assert whys and all("guest" in why for why in whys.values()), whys


def test_run_ends_with_a_line_for_each_condition(user, up):
    done = user.labkit("run", "lat_ping", "--quick", "--where", up["lab"], timeout=200)
    assert done.returncode == 2 and "can do no condition of lat_ping" in done.stderr
    for name in ("Native", "VM-Default", "VM-SRIOV", "VM-Latency-SRIOV", "VM-Default [vms=4]"):
        assert f"\n  {name}: " in done.stderr
    assert "client is not root, and may not ping every 1 ms" in done.stderr


def test_what_needs_root_is_refused(user, up):
    done = user.labkit("box", "up", "four-guests", "--name", NAME)
    assert done.returncode == 1 and "needs root" in done.stderr
    asks = f"from labkit.box import Faults; Faults({NAME!r}).lose('guest')"
    done = user.run(sys.executable, "-c", asks)
    assert f"box {NAME} is of tier user, where no faults can be made" in done.stderr
    report = json.loads(user.labkit("doctor", "--json").stdout)
    assert report["tier"] == "user" and report["means"]
    assert {c["name"] for c in report["checks"] if not c["ok"]} >= {"root"}


@pytest.mark.torture
def test_a_killed_sshd_is_told_and_up_makes_it_anew(user, up):
    (server,) = [pid for pid, words in user.processes().items() if "server/sshd_config" in words]
    os.kill(server, signal.SIGKILL)
    told = json.loads(user.labkit("box", "status", "--name", NAME, "--json").stdout)
    assert told["state"] == "broken"
    assert {h["role"]: h["alive"] for h in told["hosts"]}["server"] is False
    assert user.labkit("box", "up", "--name", NAME, timeout=200).returncode == 0
    assert ssh(user, "server", "id", "-u") == str(UID)


@pytest.mark.parametrize(
    "turn", [0, *(pytest.param(n, marks=pytest.mark.torture) for n in range(1, 20))]
)
def test_down_leaves_nothing_also_of_a_box_whose_maker_was_killed(user, turn):
    user.labkit("box", "down", "--name", NAME)
    assert user.processes() == {}
    (user.home / "words").write_text(
        f"exec {quote(sys.executable)} -m labkit box up --name {NAME}\n"
    )
    began = lambda: len(user.processes()) >= 2  # noqa: E731
    maker_killed(user.words(), began, random.Random(turn).uniform(0, 2))
    done = user.labkit("box", "down", "--name", NAME)
    assert done.returncode == 0, done.stderr
    awaited(lambda: user.processes() == {}, 5)
    assert not list((user.home / ".local/state/labkit/boxes").iterdir())
    status = json.loads(user.labkit("box", "status", "--name", NAME, "--json").stdout)
    assert status["tier"] in ("", "root")
