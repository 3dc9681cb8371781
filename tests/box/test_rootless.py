"""The box of a user who may make user namespaces: the whole lab, and nothing of it stays."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from labkit import box
from tests.box.conftest import NAME
from tests.box.plain_user import UID, PlainUser

pytestmark = [
    pytest.mark.box,
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("newuidmap"), reason="no newuidmap (package uidmap)"),
]

NUMBERS = "1878982656:65536"
MEASURED = """\
import json, sys
from labkit import find_study
from labkit.lab import opened
from labkit.where import study_results, with_load
from pathlib import Path
with opened(Path(sys.argv[1])) as lab:
    study = with_load(find_study("lat_ping"), count=100)
    results = study_results(study, lab, str(lab.path), label="rootless")
    study.run(lab, results, repeats=1)
    kept = json.loads((results.path / "study.json").read_text())["lab"]
    ran = {run.condition: run.state for run in results.runs()}
    print(json.dumps([study.refusals(lab), ran, kept["tier"]]))
"""


@pytest.fixture(scope="module")
def user():
    with tempfile.TemporaryDirectory() as home:
        found = PlainUser(Path(home), numbers=NUMBERS)
        yield found
        found.labkit("box", "down", "--name", NAME)
        assert left_of(found) == ([], [])


@pytest.fixture(scope="module")
def up(user):
    done = user.labkit("box", "up", "--name", NAME, "--json", timeout=200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def left_of(user):
    """Processes of this user and of the users of its range, and the files of its boxes."""
    first, many = map(int, NUMBERS.split(":"))
    there = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            owner, words = place.stat().st_uid, (place / "cmdline").read_text()
        except OSError:
            continue
        if words and (owner == UID or first <= owner < first + many):
            there.append(words.replace("\0", " ")[:60])
    boxes = user.home / ".local/state/labkit/boxes"
    return there, sorted(boxes.iterdir()) if boxes.exists() else []


def test_it_has_hosts_links_and_a_guest_beside_the_box_of_root(lab_file, user, up):
    assert (up["state"], up["tier"], up["accelerator"]) == ("up", "rootless", "uml")
    assert {host["role"]: host["alive"] for host in up["hosts"]} == {
        "client": True, "server": True, "guest": True,
    }  # fmt: skip
    assert up["guests"][0]["state"] == "running" and Path(up["lab"]).is_relative_to(user.home)
    done = user.labkit(
        "box", "ssh", "--name", NAME, "guest", "sh", "-c", "id -u; ping -qc 3 server"
    )
    assert done.stdout.startswith("0\n") and " 0% packet loss" in done.stdout, done.stderr
    ours = box.status(NAME)
    assert (ours.state, ours.tier) == ("up", "root")


def test_a_study_measures_guests_there_and_says_what_takes_root(user, up):
    (user.home / "measured.py").write_text(MEASURED)
    done = user.run(sys.executable, user.home / "measured.py", up["lab"], timeout=200)
    assert done.returncode == 0, done.stderr
    refused, ran, tier = json.loads(done.stdout)
    assert tier == "rootless"
    assert ran.keys() >= {"Native", "VM-Default"} and set(ran.values()) == {"finished"}
    assert "real-time priority" in refused["VM-Latency-SRIOV"]


def test_a_link_is_shaped_and_measured(user, up):
    done = user.labkit("box", "shape", "--name", NAME, "client", "--delay", "5 ms", "--json")
    assert done.returncode == 0, done.stderr
    (link,) = json.loads(done.stdout)["links"]
    assert 5.0 <= float(link["measured"]["delay"].split()[0]) < 9.0


def test_the_doctor_names_the_tier_and_what_it_lacks(user):
    report = json.loads(user.labkit("doctor", "--json").stdout)
    assert report["tier"] == "rootless" and "containers" in report["lacks"]
    (user.home / "subuid").rename(user.home / "kept")
    try:
        report = json.loads(user.labkit("doctor", "--json").stdout)
    finally:
        (user.home / "kept").rename(user.home / "subuid")
    (row,) = [check for check in report["checks"] if check["name"] == "rootless"]
    assert (report["tier"], row["ok"]) == ("user", False)
    assert row["fix"].startswith("sudo usermod --add-subuids") and row["found"]


def test_a_killed_keeper_is_told_and_nothing_of_the_box_outlives_it(user, up):
    keeper = user.home / f".local/state/labkit/boxes/{NAME}.keeper"
    os.kill(int(keeper.read_text()), signal.SIGKILL)
    until = time.monotonic() + 20
    while left_of(user)[0] and time.monotonic() < until:
        time.sleep(0.02)
    assert left_of(user)[0] == []
    told = json.loads(user.labkit("box", "status", "--name", NAME, "--json").stdout)
    assert (told["state"], told["tier"]) == ("broken", "rootless")
    assert user.labkit("box", "down", "--name", NAME).returncode == 0
    assert left_of(user) == ([], [])


@pytest.mark.parametrize(
    "turn", [0, *(pytest.param(n, marks=pytest.mark.torture) for n in range(1, 20))]
)
def test_down_leaves_nothing_of_a_box_whose_maker_was_killed(user, turn):
    (user.home / "words").write_text(f"exec {sys.executable} -m labkit.cli box up --name {NAME}\n")
    maker = subprocess.Popen(user.words(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while len(left_of(user)[0]) < 4 and time.monotonic() < until:
        assert maker.poll() is None
        time.sleep(0.01)
    time.sleep(random.Random(turn).uniform(0, 3))
    maker.kill()
    maker.wait()
    done = user.labkit("box", "down", "--name", NAME)
    assert done.returncode == 0, done.stderr
    assert left_of(user) == ([], [])
    assert json.loads(user.labkit("box", "status", "--name", NAME, "--json").stdout)["tier"] in (
        "", "root",
    )  # fmt: skip
