"""A machine without room for a box says so before anything is started; each lack is a real one."""

import shlex
import subprocess
import sys

import pytest
from boxes import OTHER
from leftovers import snapshot

from labkit.box.cgroup import hierarchy, limited_by

pytestmark = pytest.mark.box

UP = f"exec {shlex.quote(sys.executable)} -m labkit box up --name {OTHER}"


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


@pytest.mark.skipif(limited_by("memory") in (None, hierarchy()), reason="not by version 1 here")
def test_a_limit_that_the_kernel_cannot_keep_is_refused(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text('[hosts.small]\nmemory = "96M"\n')
    hidden = f"mount --bind {tmp_path} /sys/fs/cgroup/memory"
    said = refused("unshare", "-m", "sh", "-c", hidden, made_of=file)
    assert "no control group of this machine limits memory, as small wants" in said
