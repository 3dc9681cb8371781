"""3D on a remote desktop: frames made and seen, times as a poll of the screen finds them."""

import asyncio
import json
import os
import signal
import socket
import struct
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from brought import commands, need, own_address
from figures import figures

from labkit.changes.in_force import applied
from labkit.errors import HostError, ResultsError
from labkit.host import Host
from labkit.lab import opened
from labkit.results import Results, Run
from labkit.running.remarks import remarks
from labkit.settings.egress import Link
from labkit.studies.horizon_3d import study
from labkit.transports.local import Local
from labkit.workloads import _desktop, _own_place
from labkit.workloads import _desktop_users as users
from labkit.workloads._own_place import own_folder
from labkit.workloads.viewing import LOADS, Viewing

PROGRAMS = ("Xvnc", "glmark2", "mupdf-gl", "openscad")
OURS = tuple(
    f"labkit/{name}" for name in
    ("workloads/_desktop", "workloads/viewing.py", "workloads/_server.py", "studies/horizon_3d.py")
)  # fmt: skip
AT = own_address(79)
READER = _desktop.APPLICATIONS["reader"]


@pytest.fixture
def programs():
    need(*PROGRAMS)


@pytest.fixture
def hosts(programs, tmp_path, monkeypatch):
    """Both are this machine; folders of desktops that other tests have lie elsewhere."""
    own = partial(own_folder, beginning=f"{tmp_path}/own")
    monkeypatch.setattr(_own_place, "own_folder", own)
    return {role: Host(role, AT, Local(role)) for role in Viewing.roles}


@pytest.mark.parametrize("load", LOADS)
def test_a_load_asks_for_the_programs_that_it_runs_and_names_their_packages(load):
    names = {"reader": "mupdf", "scooter": "openscad", "shaft": "openscad",
             "reducer": "glmark2-x11"}  # fmt: skip
    packages = {names[application] for application in LOADS[load]}
    tools = " ".join(Viewing(load=load).tools.values())
    assert all(package in tools for package in packages | {"tigervnc-standalone-server"})


def left_over(folder):
    """Programs of desktops of this process's address, and folders of theirs."""
    return [words for words in commands() if AT.encode() in words] + [
        *Path(folder).glob("desktop-*")
    ]


def test_what_has_drawn_is_named_once_beside_the_results(tmp_path):
    row = dict.fromkeys(("frames", "made", "bytes", "seconds"), 1)
    texts = ["".join(f"{json.dumps({**row, 'renderer': name})}\n" for name in ("", drawn))
             for drawn in ("llvmpipe", "virgl", "", "virgl")]  # fmt: skip
    results = Results.begin(tmp_path / "r", {})
    for number, text in enumerate(texts, 1):
        run = Run(study.conditions[0].name, number, number, "finished")
        results.keep(run, {"viewing.txt": text})
    drawn = [line for line in remarks(study, results) if "drawn by" in line]
    assert drawn == [f"frames of a desktop were drawn by {name}" for name in ("llvmpipe", "virgl")]


@pytest.mark.slow
@pytest.mark.parametrize("encoding", [
    "tight", *(pytest.param(one, marks=pytest.mark.when_changed(*OURS)) for one in ("raw", "zrle")),
])  # fmt: skip
def test_each_key_is_answered_by_one_picture_and_nothing_is_left(hosts, encoding):
    text = Viewing(load="Light 3D", encoding=encoding, duration=2).run(hosts)
    row = json.loads(text)
    assert row["keys"] == row["good"] == row["frames"] == len(row["times"]) > 3
    assert row["made"] >= row["keys"] and row["bytes"] > 1000 * row["keys"]
    assert 0 < figures(Viewing, text)["response time"] < 1000 and not left_over(
        _own_place.own_folder(hosts["server"])
    )


@pytest.mark.slow
@pytest.mark.when_changed(*OURS)
def test_models_turn_by_the_mouse_and_by_themselves_and_no_frame_is_seen_that_was_not_made(hosts):
    """The mouse moves 30 times a second, and a move is drawn twice at most; what turns by itself
    waits for nobody."""
    by_mouse = figures(Viewing, Viewing(load="SOLIDWORKS viewer").run(hosts))
    alone = figures(Viewing, Viewing(load="Solid Edge viewer").run(hosts))
    assert 1 < by_mouse["performance"] <= by_mouse["frames made"] + 1 <= 62
    assert alone["performance"] <= min(66, alone["frames made"] + 1)
    assert alone["share seen"] < by_mouse["share seen"]


class Display:
    """An X client that looks at some pixels of the screen: it knows nothing of RFB."""

    def __init__(self, number, cookie):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(f"\0/tmp/.X11-unix/X{number}")
        name = b"MIT-MAGIC-COOKIE-1"
        hello = struct.pack("<BxHHHH2x", ord("l"), 11, 0, len(name), len(cookie))
        self.socket.sendall(hello + name + b"\0\0" + cookie)
        self.allowed = self.take(1) == b"\1"
        rest = self.take(struct.unpack("<5xH", self.take(7))[0] * 4)
        if self.allowed:
            vendor, formats = struct.unpack("<16xH3xB", rest[:22])[0], rest[21]
            at = 32 + (vendor + 3) // 4 * 4 + 8 * formats
            self.root = struct.unpack("<I", rest[at : at + 4])[0]

    def take(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                return data
            data += part
        return data

    def pixels(self):
        """A strip of the page's text."""
        self.socket.sendall(
            struct.pack("<BBHIhhHHI", 73, 2, 5, self.root, 40, 120, 200, 60, 2**32 - 1)
        )
        while (head := self.take(32))[:1] != b"\1":
            assert head[:1] > b"\1", "the display refuses"  # else an event, such as of its keys
        return self.take(4 * struct.unpack("<4xI24x", head)[0])


def display_of(desktop):
    """The number of its display, by the name of the socket that its process has."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        words = path.read_bytes().split(b"\0") if path.exists() else []
        if b"Xvnc" in words[:1] and str(desktop.port).encode() in words:
            inode, *_ = {os.readlink(at)[8:-1] for at in path.parent.glob("fd/*")
                        if os.readlink(at).startswith("socket:")} & set(listening())  # fmt: skip
            return listening()[inode]
    raise AssertionError("no display")


def listening():
    rows = (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    named = ((row[6], row[7]) for row in rows if len(row) == 8)
    return {inode: name[17:] for inode, name in named if name.startswith("@/tmp/.X11-unix/X")}


async def timed(desktop, keys, pressed):
    """Press keys as a user's hand does; the time of each answer."""
    task = users.DesktopTask([desktop.place], "tight", "keys", 1, 1, 1, 1, 1)
    session = users.DesktopSession(task, 0)
    await session.open()
    times = []
    for _ in range(keys):
        session.screen.changed.clear()
        session.screen.press(READER.keys["next"])
        pressed.append(time.monotonic())
        await asyncio.wait_for(session.screen.changed.wait(), 5)
        times.append(time.monotonic() - pressed[-1])
        await asyncio.sleep(0.3)
    await session.close()
    return times


@pytest.mark.slow
def test_the_client_s_times_are_those_of_a_fast_poll_of_the_screen(hosts):
    """The poll sees pixels in the server; the update comes with its next frame, 1/60 s later."""
    looks, pressed, over = [], [], threading.Event()

    def poll(display):
        last = b""
        while not over.is_set():
            if (now := display.pixels()) != last:
                looks.append(time.monotonic())
                last = now

    with _desktop.desktop(hosts["server"], READER) as desktop:
        cookie = Path(desktop.folder, "cookie").read_bytes()[-16:]
        thread = threading.Thread(target=poll, args=[Display(display_of(desktop), cookie)])
        thread.start()
        try:
            times = asyncio.run(timed(desktop, 8, pressed))
        finally:
            over.set()
            thread.join()
    polled = [next(at for at in looks if at > begun) - begun for begun in pressed]
    apart = [mine - its for mine, its in zip(times, polled, strict=True)]
    assert -0.01 < sorted(apart)[len(apart) // 2] < 0.04, (times, polled)


@pytest.mark.slow
def test_who_does_not_know_the_password_or_the_cookie_sees_no_desktop(hosts):
    with _desktop.desktop(hosts["server"], READER) as desktop:
        folder = Path(desktop.folder)
        assert folder.stat().st_mode & 0o777 == 0o700
        assert not any(desktop.secret.encode() in words for words in commands())
        assert not Display(display_of(desktop), b"0123456789abcdef").allowed
        cookie = (folder / "cookie").read_bytes()[-16:]
        assert Display(display_of(desktop), cookie).allowed
        address, port, _ = desktop.place
        with pytest.raises(ConnectionError, match="refused the password"):
            asyncio.run(users.Screen.reach([address, port, "12345678"], "tight", 400))


@pytest.mark.slow
def test_a_display_that_does_not_come_up_is_named_with_its_last_words(hosts, monkeypatch):
    monkeypatch.setattr(_desktop, "SIZE", "no size")
    with pytest.raises(HostError, match="ended before it was ready") as refused:
        Viewing(load="Light 3D").run(hosts)
    assert "the display did not come up" in str(refused.value)
    assert "geometry" in str(refused.value) and not left_over(
        _own_place.own_folder(hosts["server"])
    )


@pytest.mark.slow
@pytest.mark.parametrize(("program", "reason"), [
    ("mupdf-gl", "mupdf-gl ended in mid-session with code -9"),
    ("Xvnc", "the display ended in mid-session with code -9"),
])  # fmt: skip
def test_a_program_that_dies_in_mid_session_is_named_and_nothing_is_left(hosts, program, reason):
    folder, killed = _own_place.own_folder(hosts["server"]), []
    killing = threading.Thread(target=lambda: killed.extend(kill(program, folder)))
    killing.start()
    with pytest.raises(HostError, match="the session of reader failed") as refused:
        Viewing(load="Light 3D", duration=20).run(hosts)
    killing.join()
    assert killed and reason in str(refused.value) and not left_over(folder)


# The first that runs in a folder of a desktop of ours, once both programs run there.
def kill(program, folder):
    for _ in range(200):
        time.sleep(0.1)
        if len(running := in_desktops(folder)) == 2:
            time.sleep(1)
            os.kill(running[program.encode()], signal.SIGKILL)
            return [program]
    return []


def in_desktops(folder):
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words, at = (path / "cmdline").read_bytes().split(b"\0"), os.readlink(path / "cwd")
        except OSError:
            continue
        if words[0] in (b"Xvnc", b"mupdf-gl") and at.startswith(f"{folder}/desktop-"):
            found[words[0]] = int(path.name)
    return found


@pytest.mark.box
@pytest.mark.slow
@pytest.mark.when_changed(*OURS)
def test_over_a_slower_line_the_client_sees_less_of_what_the_host_makes(programs, box_of):
    shares = {}
    with opened(box_of(study.topology)) as lab:
        (pair,) = study.conditions[-1].pairs(lab, study.workload).values()
        for rate in (2, 50):
            with applied([Link(rate, role="server")], lab.hosts):
                shares[rate] = figures(Viewing, Viewing(load="Solid Edge viewer").run(pair))
    assert shares[2]["performance"] < 0.5 * shares[50]["performance"]
    assert shares[2]["share seen"] < 0.5 * shares[50]["share seen"]


def test_a_time_too_large_for_any_float_is_refused():
    line = '{"application": "reader", "frames": 7, "made": 9, "bytes": 10, "seconds": 2.0}'
    assert Viewing.parse(line)
    with pytest.raises(ResultsError, match="a trial cannot be read"):
        Viewing.parse(line.replace("2.0", '2.0, "times": [0.1, 1e999]'))
