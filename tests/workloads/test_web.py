"""Users of a web: on schedules that nothing delays, found by bisection, and judged both ways."""

import asyncio
import contextlib
import json
import resource
import shutil
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from planted import judged, results

from labkit import studies
from labkit.errors import BadInput, CommandFailed, LabkitError, Unknown
from labkit.host import Host
from labkit.transports.local import Local
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE
from labkit.workloads import _web_users as web_users
from labkit.workloads import web
from labkit.workloads._web_users import WebTask, schedule, search
from labkit.workloads.web import SERVERS, WebSessions, curve

PROGRAMS = ("nginx", "openssl", "perl", "python3")
ASKED = WebTask("download", [], "", 0, 4, 0.1, 1.0, 0.2, 0.2, 0.3, 0.6, 1, 4000)
HERE = Host("here", "127.0.0.1", Local("here"))
HOSTS = dict.fromkeys(("client", "host", *SERVERS), HERE)
PROGRAM = Path(web_users.__file__)


@pytest.fixture
def nginx():
    if not all(shutil.which(one, path="/usr/sbin:/usr/bin") for one in ("nginx", "openssl")):
        pytest.skip("nginx is not installed")


@pytest.fixture(scope="module")
def certificate():
    made = HERE.check("sh", "-c", web.IDENTITY)
    return web.CERTIFICATE.search(made)[0]


@contextlib.contextmanager
def slow_server(seconds):
    """A server that takes so long for each path, one after the other: its capacity is known."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    state = {}

    async def answer(reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                async with state["turn"]:
                    await asyncio.sleep(seconds)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage")
        writer.close()

    async def serve():
        state["turn"] = asyncio.Lock()
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


def test_a_schedule_is_drawn_beforehand_and_is_the_same_for_the_same_seed():
    plans = [[*schedule(ASKED, user)] for user in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    assert [*schedule(replace(ASKED, seed=2), 1)] != plans[0]
    assert all(page.at < ASKED.warm_up + ASKED.seconds for plan in plans for page in plan)
    many = [len([*schedule(replace(ASKED, seconds=60.0), user)]) for user in range(20)]
    assert 0.8 < sum(many) / 20 / (60.2 / ASKED.think) < 1.25, "pauses have the mean asked for"


@pytest.mark.parametrize("name", web_users.SITES)
def test_each_page_of_a_site_can_be_reached_and_left(name):
    site = web_users.SITES[name]
    reached = {"enter"} | {at for page in site.values() for at in page.moves}
    assert reached == set(site)
    assert all(sum(page.moves.values()) <= 1 for page in site.values())
    assert any(sum(page.moves.values()) < 1 for page in site.values()), "a visit ends"


@pytest.mark.slow
def test_bisection_finds_the_same_number_twice_within_its_step(certificate):
    """Each path takes 4 ms, one after the other: about 90 pages a second have room."""
    with slow_server(0.004) as port:
        asked = replace(ASKED, servers=[["127.0.0.1", port, port]], identity=certificate)
        found = [max(t["sessions"] for t in search(asked) if t["passed"]) for _ in range(2)]
    assert abs(found[0] - found[1]) <= 1 + 2 * asked.step * max(found)


@pytest.mark.slow
def test_more_users_wait_longer(certificate):
    with slow_server(0.004) as port:
        asked = replace(ASKED, servers=[["127.0.0.1", port, port]], identity=certificate,
                        sessions=1)  # fmt: skip
        few, many = (web_users.attempt(asked, users)["times"] for users in (2, 40))
    assert many[len(many) * 95 // 100] > 1.5 * few[len(few) * 95 // 100]


@pytest.mark.slow
def test_a_stall_of_the_server_makes_all_pages_late_that_were_due_meanwhile(certificate):
    """A closed loop would have asked for one page, and called the others good."""
    with slow_server(0.2) as port:
        asked = replace(ASKED, servers=[["127.0.0.1", port, port]], sessions=3, good=0.2,
                        identity=certificate)  # fmt: skip
        trial = web_users.attempt(asked, 3)
    assert trial["pages"] > 8 and trial["good"] <= 1 and max(trial["times"]) > 1


def run_program(asked, files=0):
    """What the program prints when it is run as on a client; with a limit on its files."""
    limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))) if files else None
    words = [sys.executable, str(PROGRAM), json.dumps(asdict(asked))]
    return subprocess.run(words, capture_output=True, text=True, preexec_fn=limit, timeout=60)


@pytest.mark.slow
def test_file_descriptors_that_are_used_up_are_named(certificate):
    with slow_server(0.3) as port:
        asked = replace(ASKED, servers=[["127.0.0.1", port, port]], sessions=200,
                        identity=certificate)  # fmt: skip
        done = run_program(asked, files=40)
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
def test_a_server_that_is_not_there_is_named(certificate):
    done = run_program(replace(ASKED, servers=[["127.0.0.1", 9, 9]], identity=certificate))
    assert done.returncode == 1 and "Connect call failed" in done.stderr


@pytest.mark.slow
def test_a_real_web_serves_all_shapes_by_tls_too_and_leaves_nothing(nginx):
    load = WebSessions(sessions=3, duration=1.0, warm_up=0.2, good=5.0, tolerable=10.0)
    text = load.run(HOSTS)
    found = {sample.metric: sample for sample in load.parse(text)}
    assert found["sessions"].values[0] == 3 == pytest.approx(found["score"].values[0])
    assert found["throughput [load=Download]"].values[0] > 0
    assert set(found) >= {"latency", "generator busy", "late"}
    assert curve(text, "banking") == [(3, 1.0)]
    left = HERE.run("sh", "-c", f"ls {HERE.check('sh', '-c', 'echo /tmp/labkit-$(id -u)').strip()}")
    assert not [name for name in left.stdout.split() if name.startswith("web")]


@pytest.mark.slow
def test_tls_that_is_refused_is_named(nginx, monkeypatch):
    """The client trusts one certificate, and the servers show another."""
    other = HERE.check("sh", "-c", web.IDENTITY)
    asked = WebSessions._asked

    def strange(self, shape, servers, _):
        return asked(self, shape, servers, other)

    monkeypatch.setattr(WebSessions, "_asked", strange)
    with pytest.raises(CommandFailed, match="TLS refused"):
        WebSessions(shapes="banking", duration=1.0).run(HOSTS)


@pytest.mark.parametrize("knobs, said", [
    ({"shapes": "bank"}, "banking"), ({"shapes": ""}, "shape of web"), ({"steps": "0"}, "steps"),
    ({"steps": "1,2"}, "steps"), ({"duration": 0.0}, "duration"), ({"tolerable": 0.1}, "tolerable"),
    ({"sessions": -1}, "sessions"), ({"think": 0.0}, "think"), ({"steps": "17"}, "steps"),
])  # fmt: skip
def test_a_load_that_cannot_be_meant_is_refused_by_name(knobs, said):
    with pytest.raises((BadInput, Unknown), match=said):
        WebSessions(**knobs)


def test_a_text_that_was_cut_or_changed_is_refused():
    text = (Path(__file__).parents[1] / "cases/WebSessions/steps/stdout.txt").read_text()
    assert WebSessions.parse(text)
    for odd in (text[:-40], text.replace("hold", "held", 1), "", text.replace('"times"', '"t"')):
        with pytest.raises((LabkitError, KeyError)):
            WebSessions.parse(odd)


WAYS = [
    ("15vm-01", [1, 2], [2, 1], False),
    ("15vm-02", [16], [4], False),
]
"""Levels of a claim's names that hold and that contradict it; whether a box can decide."""


@pytest.mark.parametrize("claim, holding, failing, boxed", WAYS)
def test_each_claim_is_judged_both_ways_on_hosts_and_some_in_a_box(
    tmp_path, claim, holding, failing, boxed
):
    study = studies.find(f"specweb_{claim.split('-')[0]}")
    hosts = {"hosts": {name: {"cpus": "4"} for name in ("server", *SERVERS, *named("guest"))}}
    for levels, wanted in ((holding, HOLDS), (failing, CONTRADICTED)):
        kept = results(tmp_path, lab=hosts)
        assert judged(study, f"specweb-{claim}", levels, kept).verdict == wanted
        small = {"hosts": {name: {"cpus": "1"} for name in hosts["hosts"]}}
        box = results(tmp_path, "root", lab=small, kernels={"Native": "real", "VM": "emulated"})
        verdict = judged(study, f"specweb-{claim}", levels, box).verdict
        assert verdict == (wanted if boxed else NOT_TESTABLE)


def named(kind):
    """Six roles of a lab."""
    return [f"{kind}{n}".removesuffix("1") for n in range(1, 7)]


def test_fifteen_guests_can_be_asked_for_and_each_has_a_server():
    study = studies.find("specweb_15vm").sized(guests=15)
    (condition,) = [one for one in study.conditions if one.name == "VM"]
    load = condition.load(study.workload)
    assert len({p for role in SERVERS[:15] for p in condition.players(role)}) == 15
    assert load.steps == "15" and len(load.guests) == 15
