"""A box comes and goes without a trace, whatever happens in between."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from boxes import NAME, TWO
from leftovers import another, kept_by_the_kernel, snapshot
from waiting import awaited

from labkit import box
from labkit.box import folder, needs, room
from labkit.box.cgroup import Cgroup
from labkit.box.folder import Folder
from labkit.box.guests import accelerator
from labkit.box.rootless import sudo, user_namespace
from labkit.box.status import left_over
from labkit.errors import BadInput, BoxError
from labkit.running import possible
from labkit.studies import find

PROGRAMS = ("ip", "sshd")
PLANNED = "pair"

pytestmark = pytest.mark.box

UP = "import sys; from labkit import box; box.up(sys.argv[1], made_of=''.join(sys.argv[2:]))"


def killed_after(seconds, name, made_of="pair"):
    up = subprocess.Popen([sys.executable, "-c", UP, name, made_of], stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    up.send_signal(signal.SIGKILL)
    up.wait()


def test_down_leaves_nothing(monkeypatch):
    before = snapshot(TWO)
    monkeypatch.setenv("SUDO_UID", "12345")
    path = box.up(TWO)
    assert {path.with_name(name).stat().st_uid for name in ("key", "lab.toml")} == {12345}
    assert path.with_name("key").stat().st_mode & 0o777 == 0o600
    assert snapshot(TWO) - before
    box.down(TWO)
    assert snapshot(TWO) - before == set()
    assert box.status(TWO).state == "down"
    assert TWO not in box.names()


def test_without_user_mode_linux_there_is_a_smaller_box(monkeypatch):
    absent = needs.Need(("no-such-program",), "user-mode-linux", "a guest", required=False)
    monkeypatch.setitem(needs.NEEDS, "guest", absent)
    monkeypatch.setenv(accelerator.VARIABLE, "uml")
    with another(TWO, "pair") as lab:
        assert set(lab.hosts) == {"client", "server"} and lab.emulated
        refused = possible.refusals(find("lat_ping"), lab)
        guests = {"VM-Default", "VM-SRIOV", "VM-Latency-SRIOV"}
        assert {name.partition(" [")[0] for name in refused} == guests
        assert box.status(TWO).state == "up"


def test_down_of_nothing_does_nothing():
    before, told = snapshot(TWO), []
    box.down(TWO, told.append)
    assert (snapshot(TWO), told) == (before, [f"box {TWO} is not up"])


def test_two_boxes_work_side_by_side(lab):
    with another(TWO, "pair") as other:
        for role in ("client", "server", "guest"):
            assert other.host(role).check("hostname").strip() == f"{TWO}-{role}"
            assert lab.host(role).check("hostname").strip() == f"{NAME}-{role}"
            assert other.host(role).address != lab.host(role).address
    assert lab.host("guest").check("hostname").strip() == f"{NAME}-guest"


def kill_and_take_down(seconds, made_of="pair"):
    before = snapshot(TWO)
    killed_after(seconds, TWO, made_of)
    box.down(TWO)
    left = snapshot(TWO) - before
    time.sleep(0.2)
    assert (left, snapshot(TWO) - before) == (set(), set()), f"killed after {seconds:.3f} s"


@pytest.mark.parametrize("turn", range(10))
def test_down_leaves_nothing_of_a_box_whose_maker_was_killed(turn):
    seconds = 0.2 + 0.6 * (turn + random.Random(turn).random()) / 10
    kill_and_take_down(seconds)


@pytest.mark.parametrize("trace", ["sshd", "linux.uml"])
def test_ctrl_c_on_the_way_up_takes_everything_down(trace):
    before = snapshot(TWO)
    up = subprocess.Popen([sys.executable, "-c", UP, TWO], stderr=subprocess.DEVNULL)
    awaited(lambda: any(trace in what for what in snapshot(TWO) - before))
    up.send_signal(signal.SIGINT)
    assert up.wait(30) != 0
    assert snapshot(TWO) - before == set()


SHAPED = """
[hosts.client]
[hosts.server]
cpus = "second half"
[guests.guest]
on = "server"
[links.client]
delay = "1 ms"
rate = "50 Mbit/s"
[links.server]
loss = "1 %"
"""


# A leak of one thing in a turn would be 50 of them; what others on the machine do is less.
@pytest.mark.torture
@pytest.mark.slow
def test_fifty_killed_makers_leave_nothing_that_has_a_name_or_has_none(tmp_path):
    file = tmp_path / "shaped.toml"
    file.write_text(SHAPED)
    kill_and_take_down(2, str(file))
    before = kept_by_the_kernel()
    for turn in range(50):
        seconds = random.Random(f"torture {turn}").uniform(0.1, 5)
        kill_and_take_down(seconds, str(file) if turn % 2 else "pair")
    deadline, most = time.monotonic() + 30, {"MiB in use": 400, "shared MiB": 100}
    while grown := {what: n - before[what] for what, n in kept_by_the_kernel().items()
                    if n - before[what] > most.get(what, 40)}:  # fmt: skip
        assert time.monotonic() < deadline, (grown, before)
        time.sleep(1)


def test_up_takes_the_remains_of_a_dead_box_down_first():
    before, told = snapshot(TWO), []
    path = box.up(TWO)
    Cgroup.of(TWO).kill()
    assert path.exists()
    assert box.status(TWO).state == "broken"
    try:
        box.up(TWO, told.append)
        assert told[0] == f"box {TWO} is broken; taking its remains down first"
        assert box.status(TWO).state == "up"
    finally:
        box.down(TWO)
    assert snapshot(TWO) - before == set()


def test_files_left_from_before_a_reboot_are_no_obstacle():
    folder = Folder(TWO)
    folder.path.mkdir(parents=True)
    (folder.path / "lab.toml").write_text("left over")
    (folder.path / "box.json").write_text("{broken")
    assert box.status(TWO).state == "broken"
    box.down(TWO)
    assert not folder.path.exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_what_fails_on_the_way_up_is_taken_down(monkeypatch, error):
    before = snapshot(TWO)

    def fail(*_):
        raise error

    monkeypatch.setattr("labkit.box.box._await_sshd", fail)
    with pytest.raises((KeyboardInterrupt, BoxError)):
        box.up(TWO)
    assert snapshot(TWO) - before == set()


def test_a_link_of_someone_elses_is_left_alone():
    before = snapshot(TWO)
    link = f"lk-{TWO}"
    subprocess.run(["ip", "link", "add", link, "type", "bridge"], check=True)
    try:
        assert box.status(TWO).state == "down"
        with pytest.raises(BoxError, match="exists"):
            box.up(TWO)
        assert snapshot(TWO) - before == {f"link {link}"}
    finally:
        subprocess.run(["ip", "link", "delete", link], check=True)


def test_two_at_once_make_one_box():
    before = snapshot(TWO)
    ups = [subprocess.Popen([sys.executable, "-c", UP, TWO]) for _ in range(2)]
    try:
        assert [up.wait(60) for up in ups] == [0, 0]
        awaited(lambda: box.status(TWO).state == "up")  # a busy one answers late
    finally:
        box.down(TWO)
    assert snapshot(TWO) - before == set()


def test_a_long_name_is_whole_wherever_a_user_looks_and_cut_in_a_link_alone():
    name = f"{TWO}-and-more-letters"[:20]
    with another(name, "pair") as lab:
        assert lab.name == name and name in box.names()
        assert not [one for one in box.names() if one != name and one.startswith(TWO[:6] + "-and")]
        assert lab.host("server").check("hostname").strip() == f"{name}-server"
        link = next(what for what in left_over(name) if what.startswith("link "))
        assert len(link.split()[1]) == 15 and box.status(name).state == "up"


@pytest.mark.parametrize(
    "name", ["", "Lab", "9lab", "-x", "a b", "a-name-of-21-letters-", "a/b", "..", "a\n"]
)
def test_a_name_that_cannot_be_one_everywhere_is_refused(name):
    with pytest.raises(BadInput):
        box.up(name)


def test_without_root_it_says_what_to_do(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sudo, "possible", lambda: False)
    monkeypatch.setattr(user_namespace, "possible", lambda: False)
    with pytest.raises(BoxError, match="needs root, or a user who may make") as refused:
        box.up(TWO, made_of="four-guests")
    assert "use sudo" in refused.value.hint and "--where recorded" in refused.value.hint


def test_missing_programs_are_named_with_their_packages(monkeypatch):
    need = needs.Need(("no-such-program",), "its-package", "nothing")
    monkeypatch.setitem(needs.NEEDS, "nothing", need)
    with pytest.raises(BoxError, match=r"no-such-program \(package its-package\)") as refused:
        box.up(TWO)
    assert "make system` installs its-package" in refused.value.hint


def test_when_every_subnet_is_used_it_says_so(monkeypatch):
    monkeypatch.setattr(room, "PAIRS", 0)
    before = snapshot(TWO)
    with pytest.raises(BoxError, match="no free subnet"):
        box.up(TWO)
    assert snapshot(TWO) - before == set()


def test_folders_of_boxes_and_their_files_are_as_open_under_any_umask(monkeypatch, tmp_path):
    monkeypatch.setattr(folder, "BOXES", tmp_path / "labkit")
    before = os.umask(0o077)
    try:
        one = folder.Folder("masked")
        with one.locked(print):
            one.make()
            one.write(one.path / "lab.toml", "")
    finally:
        os.umask(before)
    modes = [place.stat().st_mode & 0o777 for place in (one.path.parent, one.path)]
    assert modes == [0o755, 0o711]
    assert (one.path / "lab.toml").stat().st_mode & 0o777 == 0o644


@pytest.mark.slow
def test_a_box_that_a_plan_has_brought_up_is_down_again_afterwards(labkit):
    if box.status(PLANNED).state == "up":
        pytest.skip("a box of the user's has that name")
    try:
        planned = labkit("plan", "lat_vmxnet3")
        assert planned.returncode == 0 and f"the box {PLANNED} is down again" in planned.stderr
        assert all(len(line) <= 80 for line in planned.stdout.splitlines())
        assert box.status(PLANNED).state == "down" and not box.status(PLANNED).left
        box.up(PLANNED, made_of=PLANNED)
        planned = labkit("plan", "lat_vmxnet3")
        assert planned.returncode == 0 and "down again" not in planned.stderr
        assert box.status(PLANNED).state == "up"
    finally:
        box.down(PLANNED)
