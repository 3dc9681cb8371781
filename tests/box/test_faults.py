"""Faults on purpose: they do what they say, are noticed, and are healed."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from boxes import NAME
from waiting import awaited

from labkit.box import Faults, status
from labkit.box.folder import Folder
from labkit.box.network.shaping import Shaping, kinds_known
from labkit.box.network.splice import splice_of
from labkit.condition import Condition
from labkit.errors import BadInput, BoxError, OutcomeUnknown, Unknown, Unreachable
from labkit.results import Results
from labkit.running import loop
from labkit.study import Study
from labkit.workloads.ping import Ping

PROGRAMS = ("ping",)

pytestmark = pytest.mark.box
PINGS = Study(
    name="lat_ping", title="t", question="q", source="s", metric="round trip", unit="us",
    workload=Ping(count=20, interval=0.002), claims=(), conditions=(Condition("a", "a", "a"),),
)  # fmt: skip


def answered(lab, role, count=3):
    words = ("ping", "-n", "-q", "-c", str(count), "-i", "0.1", "-W", "1", lab.host(role).address)
    return lab.host("client").run(*words).ok


def test_a_cut_silences_the_network_and_no_link_goes_down(lab, faults):
    assert answered(lab, "server") and answered(lab, "guest")
    with faults.cut("server"):
        assert not answered(lab, "server") and not answered(lab, "guest")
        assert lab.host("server").check("cat", "/sys/class/net/data0/carrier") == "1\n"
    assert answered(lab, "server") and answered(lab, "guest")


def test_a_cut_is_healed_after_an_exception(lab, faults):
    with pytest.raises(ZeroDivisionError), faults.cut("client"):
        1 / 0  # noqa: B018
    assert answered(lab, "server")


def test_a_dead_relay_is_told_no_study_accepts_it_and_shaping_mends_it(lab, faults, tmp_path):
    if "netem" in kinds_known():
        pytest.skip("the kernel delays here, and no relay of ours")
    with faults.shape("server", delay="1 ms") as link:
        pid = Folder(NAME).held(splice_of(Shaping.of(NAME).layout, "server").stem)
        assert link.by == "relay" and status(NAME).state == "up"
        lab.check_links()
        os.kill(int(pid.read_text()), signal.SIGKILL)
        awaited(lambda: status(NAME).state == "broken")
        assert status(NAME).left[-1] == "the link of server, whose relay has ended"
        results = Results.begin(tmp_path / "dead", {"study": "lat_ping", "seed": 1, "refused": {}})
        with pytest.raises(BoxError, match="the link of server is dead"):
            loop.run(PINGS, lab, results, repeats=1)
        assert [run.state for run in results.runs()] == ["failed"]
        with faults.shape("server", delay="2 ms"):
            assert status(NAME).state == "up" and answered(lab, "server")
        lab.check_links()
    assert status(NAME).state == "up" and answered(lab, "server")


def test_what_is_not_there_cannot_fail(faults):
    with pytest.raises(Unknown, match="known: client, guest, server"), faults.cut("router"):
        pass
    with pytest.raises(Unknown), faults.cut("client", "storage"):
        pass
    with pytest.raises(BadInput, match="through server"), faults.cut("guest"):
        pass
    with pytest.raises(BoxError, match="is not up"), Faults("pytest-no").cut("client"):
        pass


PATIENCE = 20
COMMAND = ("sh", "-c", "echo ran >>/tmp/labkit-silence; sleep 1")


def failed(kind, host, *words):
    """The error that a command ends with, after so many seconds."""
    begun = time.monotonic()
    with pytest.raises(kind) as error:
        host.run(*words, seconds=300)
    return error.value, time.monotonic() - begun


@pytest.mark.slow
def test_a_host_that_falls_silent_is_noticed_whether_it_is_asked_or_not_and_come_back_to(
    lab, faults
):
    """Both at once: one in the midst of a command, of which nobody knows, and one that is idle."""
    busy, idle = lab.host("server"), lab.host("client")
    busy.check("true")
    idle.check("true")
    with (
        faults.cut("server", "control"),
        faults.cut("client", "control"),
        ThreadPoolExecutor(1) as pool,
    ):
        asked = pool.submit(failed, OutcomeUnknown, busy, *COMMAND)
        time.sleep(16)
        lost, seconds = failed(Unreachable, idle, "true")
        assert seconds <= PATIENCE and "client" in str(lost)
        assert not isinstance(lost, OutcomeUnknown)
        unknown, seconds = asked.result()
        assert seconds <= PATIENCE
        assert "server" in str(unknown) and "connection was lost" in str(unknown)
    assert idle.check("echo", "back") == "back\n"
    assert busy.run("cat", "/tmp/labkit-silence").stdout in ("", "ran\n")
    busy.check("rm", "-f", "/tmp/labkit-silence")
