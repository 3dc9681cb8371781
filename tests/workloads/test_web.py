"""Users of a web: on schedules that nothing delays, found by bisection, and judged both ways."""

import asyncio
import contextlib
import json
import re
import shutil
import socket
import subprocess
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from brought import HERE, need, run_program
from figures import figures
from planted import judged, results
from waiting import free_port

from labkit import studies
from labkit.errors import CommandFailed, LabkitError
from labkit.results import Results
from labkit.running.open_lab import recorded
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE
from labkit.workloads import _web_users as web_users
from labkit.workloads import web
from labkit.workloads._sections import joined
from labkit.workloads._web_users import WebTask, schedule, search
from labkit.workloads.web import SERVERS, WebSessions, curve

PROGRAMS = ("nginx", "openssl", "perl", "ps", "python3")
ASKED = WebTask(
    "download", web.SITES["download"], [], "", 0, 4, 0.1, 1.0, 0.2, 0.2, 0.3, 0.6, 1, 4000
)
HOSTS = dict.fromkeys(("client", "host", *SERVERS), HERE)
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"


@pytest.fixture
def nginx():
    need("nginx", "openssl")


@pytest.fixture(scope="module")
def certificate():
    made = HERE.check("sh", "-c", web.IDENTITY)
    return web.CERTIFICATE.search(made)[0]


@contextlib.contextmanager
def slow_server(seconds):
    """A server that takes so long for each path, one after the other: its capacity is known."""
    ready, loop, turn, state = threading.Event(), asyncio.new_event_loop(), asyncio.Lock(), {}

    async def answer(reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                async with turn:
                    await asyncio.sleep(seconds)
                writer.write(PAGE)
        writer.close()

    async def serve():
        state["server"] = await asyncio.start_server(answer, "127.0.0.1", 0)
        ready.set()

    thread = threading.Thread(target=lambda: (loop.create_task(serve()), loop.run_forever()))
    thread.start()
    ready.wait(10)
    try:
        yield state["server"].sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


@contextlib.contextmanager
def quick_server(folder):
    """One that answers sooner than our users can ask."""
    port = free_port()
    conf = f"""daemon off; pid {folder}/pid; error_log stderr crit;
events {{ worker_connections 8192; }} worker_rlimit_nofile 20000;
http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ return 200 page; }} }} }}"""
    (folder / "nginx.conf").write_text(conf)
    path = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    with subprocess.Popen([path, "-e", "stderr", "-p", folder, "-c", folder / "nginx.conf"]) as run:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.05)
        try:
            yield port
        finally:
            run.terminate()


def asked_of(port, certificate, **more):
    """What is asked of a server on this port."""
    return replace(ASKED, servers=[["127.0.0.1", port, port]], identity=certificate, **more)


def test_a_schedule_is_drawn_beforehand_and_is_the_same_for_the_same_seed():
    plans = [[*schedule(ASKED, user)] for user in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    assert [*schedule(replace(ASKED, seed=2), 1)] != plans[0]
    assert all(page.at < ASKED.warm_up + ASKED.seconds for plan in plans for page in plan)
    many = [len([*schedule(replace(ASKED, seconds=60.0), user)]) for user in range(20)]
    assert 0.8 < sum(many) / 20 / (60.2 / ASKED.think) < 1.25, "pauses have the mean asked for"


@pytest.mark.parametrize("name", web.SITES)
def test_each_page_of_a_site_can_be_reached_and_left(name):
    site = web.SITES[name]
    reached = {"enter"} | {at for page in site.values() for at in page["moves"]}
    assert reached == set(site)
    assert all(sum(page["moves"].values()) <= 1 for page in site.values())
    assert any(sum(page["moves"].values()) < 1 for page in site.values()), "a visit ends"


@pytest.mark.slow
def test_bisection_finds_the_same_number_twice_within_its_step(certificate):
    """Each path takes 4 ms, one after the other: about 90 pages a second have room."""
    with slow_server(0.004) as port:
        asked = asked_of(port, certificate)
        found = [max(t["sessions"] for t in search(asked) if t["passed"]) for _ in range(2)]
    assert abs(found[0] - found[1]) <= 1 + 2 * asked.step * max(found)


@pytest.mark.slow
def test_more_users_wait_longer(certificate):
    with slow_server(0.004) as port:
        asked = asked_of(port, certificate, sessions=1)
        few, many = (web_users.attempt(asked, users)["times"] for users in (2, 40))
    assert many[len(many) * 95 // 100] > 1.5 * few[len(few) * 95 // 100]


@pytest.mark.slow
def test_a_stall_of_the_server_makes_all_pages_late_that_were_due_meanwhile(certificate):
    """A closed loop would have asked for one page, and called the others good."""
    with slow_server(0.2) as port:
        asked = asked_of(port, certificate, sessions=3, good=0.2)
        trial = web_users.attempt(asked, 3)
    assert trial["pages"] > 8 and trial["good"] <= 1 and max(trial["times"]) > 1


def run_users(asked, files=0):
    """What the program prints when it is run as on a client; with a limit on its files."""
    return run_program(web_users.__file__, json.dumps(asdict(asked)), files=files)


@pytest.mark.slow
def test_file_descriptors_that_are_used_up_are_named(certificate):
    with slow_server(0.3) as port:
        asked = asked_of(port, certificate, sessions=200)
        done = run_users(asked, files=40)
    assert done.returncode == 1 and "file descriptors used up, by 200 users" in done.stderr


@pytest.mark.parametrize(
    "late, busy, refused", [(0.2, 0.9, True), (0.2, 0.2, False), (0, 0.9, False)]
)
def test_a_generator_that_saturates_decides_nothing(late, busy, refused):
    """One that was late because others had the CPU is known by its lateness, as a gate."""
    trial = {"late": late, "busy": busy, "sessions": 9, "pages": 4, "failed": {}, "times": [1.0]}
    with pytest.raises(SystemExit, match="saturates") if refused else contextlib.nullcontext():
        web_users._refuse_own_fault(ASKED, trial)


@pytest.mark.slow
def test_users_that_cannot_ask_as_often_as_is_due_end_the_search(nginx, certificate, tmp_path):
    with quick_server(tmp_path) as port:
        asked = asked_of(port, certificate, think=0.02, start=200)
        # Where others have the CPU too, that it is late is not its own fault.
        tries = (run_users(asked) for _ in range(4))
        done = next((done for done in tries if done.returncode), None)
    assert done and done.returncode == 1 and "the load generator saturates at" in done.stderr


@pytest.mark.torture
def test_an_overload_is_a_failed_trial_and_delays_no_later_one(nginx):
    """What was asked for in vain is not worked off when the next trial asks."""
    load = WebSessions(shapes="download", start=512, think=0.2, duration=0.5, warm_up=0.2)
    trials = [json.loads(line) for line in load.run(HOSTS).splitlines() if line[:1] == "{"]
    assert not trials[0]["passed"] and any(trial["passed"] for trial in trials)


@pytest.mark.slow
def test_a_server_that_is_not_there_is_named(certificate):
    done = run_users(asked_of(9, certificate))
    assert done.returncode == 1 and "Connect call failed" in done.stderr


@pytest.mark.slow
def test_a_real_web_serves_all_shapes_by_tls_too_and_leaves_nothing(nginx):
    load = WebSessions(sessions=3, duration=1.0, warm_up=0.2, good=5.0, tolerable=10.0)
    text = load.run(HOSTS)
    found = figures(load, text)
    assert found["sessions"] == 3 == pytest.approx(found["score"])
    assert found["throughput [load=Download]"] > 0
    assert set(found) >= {"latency", "generator busy", "late"}
    assert curve(text, "banking") == [(3, 1.0)]
    assert not left()


def left():
    """Folders of a web, and processes that work in them."""
    output = HERE.run("sh", "-c", "ls /tmp/labkit-$(id -u); ps ax").stdout
    return [
        line for line in output.splitlines() if re.search(r"(^|/)web(_users)?-[0-9a-f]{8}", line)
    ]


@pytest.mark.slow
def test_tls_that_is_refused_is_named(nginx, monkeypatch):
    """The client trusts one certificate, and the servers show another."""
    other = HERE.check("sh", "-c", web.IDENTITY)
    asked = WebSessions._request

    def strange(self, shape, servers, _):
        return asked(self, shape, servers, other)

    monkeypatch.setattr(WebSessions, "_request", strange)
    with pytest.raises(CommandFailed, match="TLS refused"):
        WebSessions(shapes="banking", duration=1.0).run(HOSTS)
    assert not left()


def test_a_text_that_was_cut_or_changed_is_refused():
    text = (Path(__file__).parents[1] / "cases/WebSessions/steps/stdout.txt").read_text()
    assert WebSessions.parse(text)
    for odd in (text[:-40], text.replace("hold", "held", 1), "", text.replace('"times"', '"t"')):
        with pytest.raises((LabkitError, KeyError)):
            WebSessions.parse(odd)


WAYS = [
    ("15vm-01", {"VM": 2}, {"Native": 2}, False),
    ("15vm-02", {"VM": 16}, {"VM": 4}, False),
    ("directpath-01", {f"vms={n}": n for n in (2, 3, 4)}, {"vms=4": 1.5}, False),
    ("directpath-02", {"VM": 0.85}, {"VM": 0.5}, False),
    ("directpath-03", {"VM": 29}, {"VM": 12}, False),
    ("directpath-04", {"VM": 31}, {"VM": 12}, False),
    ("directpath-05", {"VM": 0.85}, {"VM": 0.5}, False),
    ("directpath-06", {"vmxnet3": 2}, {"DirectPath": 2}, False),
    ("directpath-07", {"1500": 2}, {"8000": 2}, False),
    ("directpath-08", {"e1000": 2}, {"paravirtual": 2}, True),
    ("directpath-08", {"e1000": 2}, {"exits: VM-paravirtual": 2, "e1000": 1.5}, True),
]
"""Levels of a claim's names, by a part of each, that hold and that contradict it.

At the end: whether a box can decide it.
"""


@pytest.mark.parametrize("claim, holding, failing, boxed", WAYS)
def test_each_claim_is_judged_both_ways_on_hosts_and_some_in_a_box(
    tmp_path, claim, holding, failing, boxed
):
    study = studies.find(f"specweb_{claim.split('-')[0]}")
    (asked,) = [one for one in study.claims if one.id == f"specweb-{claim}"]
    guests = [condition.name for condition in study.conditions if condition.in_guest]
    made = {"Native": "real kernel", **dict.fromkeys(guests, "emulated guest")}
    names = ("server", *SERVERS, "guest", *(f"guest{n}" for n in range(2, 7)))
    hosts = {"hosts": {name: {"cpus": "4"} for name in names}}
    small = {"accelerator": "tcg", "hosts": {name: {"cpus": "1"} for name in hosts["hosts"]}}
    for planted, wanted in ((holding, HOLDS), (failing, CONTRADICTED)):
        levels = [next((x for part, x in planted.items() if part in name), 1)
                  for name in asked.names()]  # fmt: skip
        kept = results(tmp_path, lab=hosts)
        assert judged(study, asked.id, levels, kept).verdict == wanted
        box = results(tmp_path, "root", lab=small, kernels=made)
        verdict = judged(study, asked.id, levels, box).verdict
        assert verdict == (wanted if boxed else NOT_TESTABLE)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["exits", "cpu_per_byte", "latency"])
def test_an_emulated_nic_costs_more_than_a_paravirtual_one(metric):
    """As it was recorded, in each block: two guests that are else alike, asked for the same."""
    study = studies.find("specweb_directpath")
    found = study.measured(Results.open(recorded(study.name)))
    few, many = found[f"{metric}: VM-paravirtual"], found[f"{metric}: VM-e1000"]
    assert few and all(many[n].mean() > few[n].mean() > 0 for n in few)


@pytest.mark.slow
def test_a_search_that_no_user_passes_says_so(certificate):
    with slow_server(0.5) as port:
        asked = asked_of(port, certificate)
        with pytest.raises(SystemExit, match="no user at all is served well enough: too slow"):
            list(search(asked))


def test_exits_are_counted_for_the_pages_that_were_asked_for_meanwhile():
    trial = {"sessions": 2, "passed": True, "pages": 10, "bytes": 8, "seconds": 1.0, "busy": 0.1,
             "late": 0.0, "behind": 0.0, "failed": {}, "times": [0.1]}  # fmt: skip
    line = json.dumps(trial)
    for counted, per_page in (({"exits": 150}, 15.0), ({}, None)):
        held, traced = f"{line}\n", f"{line}\n{json.dumps(counted)}\n"
        text = joined({"banking, servers 1: hold": held, "banking, servers 1: exits": traced})
        found = figures(WebSessions, text)
        assert found.get("exits") == per_page


def test_fifteen_guests_can_be_asked_for_and_each_has_a_server():
    study = studies.find("specweb_15vm").sized(guests=15)
    (condition,) = [one for one in study.conditions if one.name == "VM"]
    load = condition.load(study.workload)
    assert len({p for role in SERVERS[:15] for p in condition.players(role)}) == 15
    assert load.steps == "15" and len(load.guests) == 15
