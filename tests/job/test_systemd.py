"""Jobs where systemd is the first process, and logind ends what a login leaves behind."""

import pytest
from systemd_machine import machine
from waiting import awaited

from labkit.errors import HostError
from labkit.job import State

PROGRAMS = ("busctl", "loginctl", "pgrep", "setsid", "systemctl")

pytestmark = pytest.mark.slow
LOGIND = "/etc/systemd/logind.conf"
ASKED = (
    "busctl", "get-property", "org.freedesktop.login1", "/org/freedesktop/login1",
    "org.freedesktop.login1.Manager", "KillUserProcesses",
)  # fmt: skip
LEAVE = "nohup setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!"


@pytest.fixture(scope="module")
def booted(tmp_path_factory):
    with machine(tmp_path_factory.mktemp("systemd")) as one:
        yield one


def logged_out(booted, host):
    """Leave; what the login has left behind is ended by logind, or the test would show nothing."""
    left = host.check("sh", "-c", LEAVE).strip()
    with booted.as_user("root") as root:
        assert root.run("kill", "-0", left).ok
        host.close()
        awaited(lambda: not root.run("kill", "-0", left).ok, why="logind ended nothing")


def unit_of(booted, job):
    """The control group of what a job runs."""
    with booted.as_user("root") as root:
        awaited(lambda: root.check("cat", f"{job.folder}/work.pid").split(), why="it has not begun")
        pid = root.check("cat", f"{job.folder}/work.pid").split()[0]
        return root.check("cat", f"/proc/{pid}/cgroup")


def at_logout(booted, kills, lingers):
    """Whether logind ends what the user leaves behind, and whether the user lingers."""
    how = "enable" if lingers else "disable"
    with booted.as_user("root") as root:
        root.check("sed", "-i", f"s/^KillUserP.*/KillUserProcesses={kills}/", LOGIND)
        root.check("systemctl", "kill", "--signal=HUP", "systemd-logind")
        awaited(lambda: f"b {kills}" in root.check(*ASKED), why="logind has not read it")
        root.check("loginctl", f"{how}-linger", booted.user)


def waiting(host, key, code):
    """A job that runs until it is released, and then ends with this code."""
    script = f"until [ -e /tmp/{key} ]; do sleep 0.1; done; exit {code}"
    return host.start("sh", "-c", script, key=key, seconds=600)


def released(booted, job):
    """How a job ended once it was released."""
    with booted.as_user("root") as root:
        root.check("touch", f"/tmp/{job.key}")
    return ended(job)


def ended(job):
    status = job.wait(60)
    return status.state, status.code, status.signal


# --- it outlives the login --------------------------------------------------------------------


def test_a_job_of_root_is_a_unit_that_outlives_the_login(booted):
    with booted.as_user("root") as root:
        assert root.check("cat", "/proc/1/comm") == "systemd\n"
        job = waiting(root, "of-root", 7)
        assert "/system.slice/labkit-job-of-root.service" in unit_of(booted, job)
        asked = ("systemctl", "show", "-p", "KillMode,ExitType,RuntimeMaxUSec")
        limits = root.check(*asked, "labkit-job-of-root").split("\n")
        assert {"KillMode=control-group", "ExitType=cgroup", "RuntimeMaxUSec=11min 5s"} < {*limits}
        logged_out(booted, root)
        assert released(booted, job) == (State.FINISHED, 7, "")


def test_a_users_job_is_refused_where_logout_would_end_it(booted):
    at_logout(booted, kills="true", lingers=False)
    with booted.as_user(booted.user) as user:
        with pytest.raises(HostError, match=r"KillUserProcesses=yes.*enable-linger"):
            user.start("sleep", "1000", key="refused", seconds=60)
        assert user.jobs() == {}


def test_a_job_of_a_user_who_lingers_is_a_unit_that_outlives_the_login(booted):
    at_logout(booted, kills="true", lingers=True)
    with booted.as_user(booted.user) as user:
        job = waiting(user, "lingers", 5)
        assert "labkit-job-lingers.service" in unit_of(booted, job)
        logged_out(booted, user)
        assert released(booted, job) == (State.FINISHED, 5, "")


def test_where_logout_ends_nothing_a_users_job_needs_no_unit(booted):
    at_logout(booted, kills="false", lingers=False)
    with booted.as_user(booted.user) as user:
        job = waiting(user, "stays", 4)
        assert "labkit-job" not in unit_of(booted, job)
        user.close()
        with booted.as_user("root") as root:
            state = ("loginctl", "show-user", booted.user, "-p", "State", "--value")
            awaited(lambda: root.check(*state) == "closing\n", why="the user is still logged in")
        assert released(booted, job) == (State.FINISHED, 4, "")


# --- it ends as it would without systemd --------------------------------------------------------


def test_what_a_command_leaves_behind_lives_on_and_is_ended_with_the_job(booted):
    with booted.as_user("root") as root:
        script = "setsid sleep 1234 </dev/null >/dev/null 2>&1 & exit 3"
        job = root.start("sh", "-c", script, key="leaves", seconds=600)
        awaited(lambda: job.status().code == 3, why="the command has not ended")
        status = job.status()
        assert status.state is State.RUNNING and "what it left behind" in status.why
        assert job.cancel(1).over
        assert not root.run("pgrep", "-f", "sleep 1234").ok


def test_a_unit_that_an_operator_stops_was_killed_and_a_cancelled_one_cancelled(booted):
    with booted.as_user("root") as root:
        words = ("sh", "-c", "echo up; exec sleep 1000")
        stopped = root.start(*words, key="stopped", seconds=60)
        awaited(stopped.output)
        root.check("systemctl", "stop", "labkit-job-stopped")
        assert ended(stopped) == (State.KILLED, None, "TERM")
        tree = "sleep 2345 & setsid sleep 2345 & sleep 2345"
        cancelled = root.start("sh", "-c", tree, key="cancelled", seconds=60)
        assert cancelled.cancel(1).why == "it was cancelled"
        assert not root.run("pgrep", "-f", "sleep 2345").ok
        listed = ("systemctl", "list-units", "--all", "--no-legend", "labkit-job-*")
        awaited(lambda: root.check(*listed) == "", why="a unit is left")
