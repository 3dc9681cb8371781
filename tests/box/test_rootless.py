"""The box of a user who may make user namespaces: the whole lab, and nothing of it stays."""

import json
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from shlex import quote

import pytest
from boxes import NAME
from leftovers import maker_killed
from plain_user import UID, PlainUser
from waiting import awaited

from labkit import box
from labkit.box.needs import TUN

PROGRAMS = ("newuidmap",)

pytestmark = [
    pytest.mark.box,
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("newuidmap"), reason="no newuidmap (package uidmap)"),
    pytest.mark.skipif(not TUN.exists(), reason=f"no {TUN}"),
]

NUMBERS = "1878982656:65536"
MEASURED = """\
import json, sys
from labkit import find_study
from labkit.lab import opened
from labkit.running import loop, possible
from labkit.running.open_lab import study_results, with_load
from pathlib import Path
with opened(Path(sys.argv[1])) as lab:
    study = with_load(find_study("lat_ping"), count=100)
    results = study_results(study, lab, str(lab.path), label="rootless")
    loop.run(study, lab, results, repeats=1)
    kept = json.loads((results.path / "study.json").read_text())["lab"]
    ran = {run.condition: run.state for run in results.runs()}
    print(json.dumps([possible.refusals(study, lab), ran, kept["tier"]]))
"""


# As nearly every system has it; where only the kernel made the device, it is root's.
@pytest.fixture(scope="module", autouse=True)
def network_cards():
    before = TUN.stat().st_mode
    if before & 0o006 != 0o006:
        TUN.chmod(0o666)
    yield
    if before & 0o006 != 0o006:
        TUN.chmod(before)


@pytest.fixture(scope="module")
def user():
    with tempfile.TemporaryDirectory() as home:
        plain_user = PlainUser(Path(home), numbers=NUMBERS, uid=UID + 2)
        yield plain_user
        plain_user.labkit("box", "down", "--name", NAME)
        assert left_of(plain_user) == ([], [])


@pytest.fixture(scope="module")
def up(user):
    done = user.labkit("box", "up", "--name", NAME, "--json", timeout=200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def of_user(user):
    """Processes of this user and of the users of its range: what each was started as."""
    first, many = map(int, NUMBERS.split(":"))
    there = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            owner, words = place.stat().st_uid, (place / "cmdline").read_text("utf-8", "replace")
        except OSError:
            continue
        if words and (owner == user.uid or first <= owner < first + many):
            there[int(place.name)] = words.replace("\0", " ")[:60]
    return there


def left_of(user):
    """What runs of it, and the files of its boxes."""
    there = list(of_user(user).values())
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


@pytest.mark.when_changed("labkit/box/")
def test_a_study_measures_guests_there_and_says_what_takes_root(user, up):
    (user.home / "measured.py").write_text(MEASURED)
    done = user.run(sys.executable, user.home / "measured.py", up["lab"], timeout=200)
    assert done.returncode == 0, done.stderr
    refused, ran, tier = json.loads(done.stdout)
    assert tier == "rootless"
    assert ran.keys() >= {"Native", "VM-Default"} and set(ran.values()) == {"finished"}
    assert "real-time priority" in refused["VM-Latency-SRIOV"]


FAULTS = """\
import sys
from labkit.box import Faults
from labkit.errors import BadInput
from labkit.lab import opened
from pathlib import Path
faults = Faults(sys.argv[2])
with opened(Path(sys.argv[1])) as lab:
    def answered(role):
        words = ("ping", "-n", "-q", "-c", "1", "-W", "1", lab.host(role).address)
        return lab.host("client").run(*words).ok
    with faults.cut("server"):
        assert not answered("server")
    assert answered("server")
    with faults.shape("server", delay="5 ms") as link:
        assert link.asked == {"delay": "5 ms"} and link.measured["delay"].endswith("ms")
    try:
        with faults.cut("router"):
            pass
    except BadInput as refused:
        print(refused)
"""


@pytest.mark.when_changed("labkit/box/")
def test_faults_are_made_in_there_and_healed(user, up):
    (user.home / "faults.py").write_text(FAULTS)
    done = user.run(sys.executable, user.home / "faults.py", up["lab"], NAME, timeout=200)
    assert done.returncode == 0 and "known: client, guest, server" in done.stdout, done.stderr


@pytest.mark.when_changed("labkit/box/")
def test_a_link_is_shaped_and_measured(user, up):
    done = user.labkit("box", "shape", "--name", NAME, "client", "--delay", "50 ms", "--json")
    assert done.returncode == 0, done.stderr
    (link,) = json.loads(done.stdout)["links"]
    # Beside other tests, packets are late by some milliseconds.
    assert 50.0 <= float(link["measured"]["delay"].split()[0]) < 90.0


def test_who_may_make_no_namespaces_is_told_how_to_and_has_recorded_runs(user):
    report = json.loads(user.labkit("doctor", "--json").stdout)
    assert report["tier"] == "rootless" and "containers" in report["lacks"]
    (user.home / "subuid").rename(user.home / "kept")
    try:
        report = json.loads(user.labkit("doctor", "--json").stdout)
        refused = user.labkit("box", "up", "--name", f"{NAME}x")
    finally:
        (user.home / "kept").rename(user.home / "subuid")
    assert refused.returncode == 1 and "a user who may make namespaces" in refused.stderr
    assert "sudo usermod --add-subuids" in refused.stderr and "--where recorded" in refused.stderr
    (row,) = [check for check in report["checks"] if check["name"] == "rootless"]
    assert (report["tier"], row["ok"]) == ("recorded", False)
    assert row["fix"].startswith("sudo usermod --add-subuids") and row["found"]


@pytest.mark.when_changed("labkit/box/")
def test_a_killed_keeper_is_told_and_nothing_of_the_box_outlives_it(user, up):
    keeper = user.home / f".local/state/labkit/boxes/{NAME}.keeper"
    os.kill(int(keeper.read_text()), signal.SIGKILL)
    awaited(lambda: left_of(user)[0] == [])
    told = json.loads(user.labkit("box", "status", "--name", NAME, "--json").stdout)
    assert (told["state"], told["tier"]) == ("broken", "rootless")
    assert user.labkit("box", "down", "--name", NAME).returncode == 0
    assert left_of(user) == ([], [])


@pytest.mark.when_changed("labkit/box/")
@pytest.mark.parametrize(
    "turn", [0, *(pytest.param(n, marks=pytest.mark.torture) for n in range(1, 20))]
)
def test_down_leaves_nothing_of_a_box_whose_maker_was_killed(user, turn):
    (user.home / "words").write_text(
        f"exec {quote(sys.executable)} -m labkit box up --name {NAME}\n"
    )
    began = lambda: len(left_of(user)[0]) >= 4  # noqa: E731
    maker_killed(user.words(), began, random.Random(turn).uniform(0, 3))
    done = user.labkit("box", "down", "--name", NAME)
    assert done.returncode == 0, done.stderr
    assert left_of(user) == ([], [])
    assert json.loads(user.labkit("box", "status", "--name", NAME, "--json").stdout)["tier"] in (
        "", "root",
    )  # fmt: skip
