"""A campaign that dies goes on: what is finished stays, and nothing is measured twice."""

import os
import signal
from pathlib import Path

import pytest
from campaigns import (
    KERNEL,
    ONE,
    TWO,
    WORKER,
    begun,
    folder,
    kill,
    labkit,
    processes,
    written,
)
from campaigns import insist_whole as insist_all
from waiting import awaited

from labkit.campaign.folder import FAILED, FINISHED

pytestmark = [
    pytest.mark.slow,
    pytest.mark.when_changed("labkit/campaign/", "labkit/running/"),
]


def measuring(out):
    """Whether a run of some point has been begun and not ended."""
    return list(out.glob("results/lat_ping/*/runs/*.begun"))


def insist_whole(out, numbers=(1, 2)):
    """No temporary file is left either."""
    campaign = insist_all(out, numbers)
    tries = [attempt for point in campaign.points for attempt in campaign.attempts(point)]
    assert [one.temporary for one in tries if one.temporary and Path(one.temporary).exists()] == []


@pytest.mark.torture
def test_a_campaign_whose_kernel_and_controller_are_killed_ends_whole(lab, tmp_path):
    file, out = written(lab, TWO), tmp_path / "out"
    first = begun("campaign", "run", file, out=out)
    awaited(lambda: measuring(out))
    kill(out, KERNEL)
    campaign = awaited(lambda: (out / "campaigns/small").exists() and folder(out))
    tried = awaited(lambda: [a for a in campaign.attempts(campaign.points[0]) if a.number == 2])
    dead = campaign.attempts(campaign.points[0])[0]
    assert (dead.state, dead.kind) == (FAILED, "KernelDied") and tried
    awaited(lambda: len(measuring(out)) > 1 or campaign.finished(campaign.points[0]))
    first.kill()
    first.communicate()
    again = labkit("campaign", "run", file, out=out)
    assert again.returncode == 0, again.stderr
    insist_whole(out)
    done = [folder(out).attempts(point) for point in folder(out).points]
    assert [one[-1].state for one in done] == [FINISHED, FINISHED]
    third = labkit("campaign", "run", file, out=out)
    assert third.returncode == 0 and "finished in" not in third.stderr
    assert [folder(out).attempts(point) for point in folder(out).points] == done


def test_a_stop_ends_cleanly_and_the_same_command_goes_on(lab, tmp_path):
    file, out = written(lab, ONE), tmp_path / "out"
    first = begun("campaign", "run", file, out=out)
    awaited(lambda: measuring(out))
    os.kill(first.pid, signal.SIGINT)
    _, said = first.communicate(timeout=60)
    assert first.returncode == 130 and "0 of 1 points are finished" in said
    assert processes(out) == []
    (attempt,) = folder(out).attempts(folder(out).points[0])
    assert attempt.state == "stopped"
    assert (out / "campaigns/small/report/index.html").is_file()
    assert labkit("campaign", "run", file, out=out).returncode == 0
    insist_whole(out, [1])


def test_two_controllers_never_run_one_campaign(lab, tmp_path):
    file, out = written(lab, ONE), tmp_path / "out"
    first = begun("campaign", "run", file, out=out)
    awaited(lambda: processes(out, WORKER))
    second = labkit("campaign", "run", file, out=out)
    assert second.returncode == 1 and f"in process {first.pid}" in second.stderr
    os.kill(first.pid, signal.SIGTERM)
    first.communicate(timeout=60)
    assert first.returncode == 130
