"""Campaigns for tests: their files, small labs, what became of each point, and made-up results."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import synthetic
from lab_toml import lab_toml, reached_at, table
from sshd import Server, serving, tell
from waiting import awaited

from labkit import studies
from labkit.campaign.asked import Campaign, points
from labkit.campaign.folder import FINISHED, Attempt, CampaignFolder, folder_of
from labkit.gates.gate import NAMES
from labkit.judging import judge

TAIL = 30.0
TWO = """labs = ["loopback.toml"]
order = "as written"
[[study]]
name = "lat_ping"
parameters.repeats = 2
sweep.count = [300, 310]
"""
ONE = TWO.replace("[300, 310]", "[300]")


def written(folder, text, name="small"):
    """A campaign file of this text, below its name."""
    path = folder / f"{name}.toml"
    path.write_text(f'name = "{name}"\n{text}')
    return path


@contextmanager
def loopback_lab(folder, name="loopback"):
    """The lab.toml of two hosts, each an sshd of its own on this machine."""
    client, server = (_made(folder / f"{name}-{role}") for role in ("client", "server"))
    with serving(client) as one, serving(server) as other:
        at = {"client": one.address(), "server": other.address()}
        known = "".join(Path(host.known_hosts[0]).read_text() for host in at.values())
        (folder / f"{name}.known_hosts").write_text(known)
        hosts = (table(role, **reached_at(host)) for role, host in at.items())
        yield lab_toml(
            folder / f"{name}.toml", *hosts, name=name, ssh_config="none",
            known_hosts=f"{name}.known_hosts",
            tolerates=NAMES,  # what other tests do on this machine is no matter here
        )  # fmt: skip


def _made(folder):
    folder.mkdir()
    return folder


def labkit(*words, out, **more):
    """The command line to its end; what it measures lies in `out`."""
    return subprocess.run(_command(words), capture_output=True, text=True, env=_env(out), **more)


def begun(*words, out):
    """The command line at work, in a session of its own."""
    return subprocess.Popen(
        _command(words), env=_env(out), text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def _command(words):
    return [sys.executable, "-m", "labkit", *map(str, words)]


def _env(out):
    return {**os.environ, "LABKIT_OUT": str(out), "XDG_STATE_HOME": str(Path(out) / "state")}


def folder(out, name="small"):
    """The campaign of this name below `out`."""
    return CampaignFolder.open(Path(out) / "campaigns" / name)


def history(campaign):
    """Of each point its name and its finished attempt, in the order in which they finished."""
    ended = [(point, campaign.finished(point)) for point in campaign.points]
    done = [(one.began, point.name) for point, one in ended if one]
    return [name for _, name in sorted(done)]


def runs(campaign):
    """Of each point its runs: condition, block and order, and their state."""
    found = {}
    for point in campaign.points:
        attempt = campaign.finished(point)
        kept = sorted((campaign.results(attempt) / "runs").glob("*/run.json"))
        read = [json.loads(file.read_text()) for file in kept]
        found[point.name] = [(r["condition"], r["block"], r["order"], r["state"]) for r in read]
    return found


CONTROLLER, WORKER, KERNEL = "labkit campaign", "labkit.campaign.worker", "ipykernel_launcher"


def processes(out, kind=""):
    """The numbers of processes that work for campaigns below `out`, of one kind or of all.

    On a cluster each point has a folder of its own below that.
    """
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = _words(entry)
            content = (entry / "environ").read_bytes()
            ours = any(f"LABKIT_OUT={out}{end}".encode() in content for end in ("\0", "/"))
            if words and ours and kind in words:
                found.append(int(entry.name))
    return found


def kill(out, kind):
    """Kill all processes of a kind that work for campaigns below `out`."""
    tell(processes(out, kind), signal.SIGKILL)


def host_dies(home, seconds=2.0):
    """Kill all that the sshd of this folder has begun; it takes nobody for some seconds."""
    (daemon,) = (
        int(entry.name) for entry in Path("/proc").glob("[0-9]*")
        if f"-f {home}/sshd_config" in _words(entry)
    )  # fmt: skip
    os.kill(daemon, signal.SIGSTOP)
    try:
        tell(Server(home, 0, daemon).processes(), signal.SIGKILL)
        time.sleep(seconds)
    finally:
        os.kill(daemon, signal.SIGCONT)


def _words(process):
    with suppress(OSError):
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    return ""


def asked(campaign):
    """Of each point what its results say that was asked, and of which lab."""
    found = {}
    for point in campaign.points:
        kept = campaign.results(campaign.finished(point)) / "study.json"
        found[point.name] = json.loads(kept.read_text())
    return found


def insist_whole(out, numbers=(1, 2), kind=""):
    """All points are finished, in their order, each run once, and nobody is left at work."""
    campaign = folder(out)
    assert [int(name[:4]) for name in history(campaign)] == list(numbers)
    for some in runs(campaign).values():
        finished = [run[:3] for run in some if run[3] == "finished"]
        assert finished == [("Native", 1, 1), ("Native", 2, 2)]
    assert len(asked(campaign)) == len(numbers)
    awaited(lambda: not processes(out, kind), 20)
    assert [path for path in (out / "campaigns").rglob("*") if "half" in path.name] == []
    for point in campaign.points:
        states = [attempt.state for attempt in campaign.attempts(point)]
        assert states.count(FINISHED) == 1, point.name
    return campaign


def made_up(out, name, repetitions, seed=0, shapes=None, count=600, sweep=(300,)):
    """A campaign of lat_ping whose points are all finished, with results that no lab measured."""
    study = studies.find("lat_ping")
    path = written(
        _made(out / f"file-{name}"),
        f'labs = ["recorded"]\nrepetitions = {repetitions}\n[[study]]\nname = "lat_ping"\n'
        f"sweep.count = {[*sweep]}\n", name,
    )  # fmt: skip
    campaign = Campaign.read(path)
    found = CampaignFolder.begin(campaign, points(campaign))
    before = synthetic.SHAPES
    for point in found.points:
        own = found.of(point)
        own.mkdir(parents=True)
        synthetic.SHAPES = shapes or before
        try:
            results = synthetic.write_results(
                out / "results" / "lat_ping" / point.name / name, study, 6,
                count + seed + 7 * point.repetition,
            )  # fmt: skip
        finally:
            synthetic.SHAPES = before
        attempt = Attempt.begin(1).ended(FINISHED)
        verdicts = [one.told() for one in judge(study, results)]
        where = os.path.relpath(results.path, folder_of("x").parents[1])
        replace(attempt, results=where, verdicts=verdicts).keep(own)
    return found
