"""A machine without room for a box says so before anything is started; each lack is a real one."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from boxes import NAME, OTHER
from leftovers import snapshot

from labkit.box.cgroup import hierarchy, limited_by

pytestmark = pytest.mark.box

UP = f"exec {shlex.quote(sys.executable)} -m labkit box up --name {OTHER}"
PIDS = Path("/sys/fs/cgroup/pids")


def refused(*words, made_of=""):
    before = snapshot(OTHER)
    script = f"{words[-1]} && {UP} {made_of}"
    done = subprocess.run([*words[:-1], script], capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert snapshot(OTHER) == before
    assert "hint: " in done.stderr
    return done.stderr


def test_a_full_disk_is_seen_before_anything_is_written(lab_file):
    small = "mount -t tmpfs -o size=64k tmpfs /run/labkit"
    assert "and 64 KiB are free" in refused("unshare", "-m", "sh", "-c", small)


def test_too_few_namespaces_are_seen():
    few = "echo 2 > /proc/sys/user/max_net_namespaces"
    said = refused("unshare", "-U", "-r", "sh", "-c", few)
    assert "needs 3 namespaces of kind net, and 2 are allowed" in said
    assert "sysctl user.max_net_namespaces=" in said


@pytest.mark.skipif(not (PIDS / "cgroup.procs").exists(), reason="no pids controller of version 1")
def test_too_few_processes_are_seen():
    group = PIDS / f"few-{NAME}"
    group.mkdir()
    try:
        (group / "pids.max").write_text("20")
        said = refused("sh", "-c", f"echo 0 > {group}/cgroup.procs")
        assert f"{group} allows" in said and "raise" in said
    finally:
        group.rmdir()


@pytest.mark.skipif(limited_by("memory") in (None, hierarchy()), reason="not by version 1 here")
def test_a_limit_that_the_kernel_cannot_keep_is_refused(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text('[hosts.small]\nmemory = "96M"\n')
    hidden = f"mount --bind {tmp_path} /sys/fs/cgroup/memory"
    said = refused("unshare", "-m", "sh", "-c", hidden, made_of=file)
    assert "no control group of this machine limits memory, as small wants" in said
