"""Boxes that come and go, and what they could leave on this machine."""

import json
import os
import re
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from brought import need
from waiting import awaited

from labkit import box
from labkit.box.cgroup import PREFIX, hierarchy, version_1
from labkit.box.guests import accelerator, kernel
from labkit.lab import opened

PROGRAMS = ("ip", "losetup")

GONE = "(deleted)"
# Tests that need no box run beside: their files lie in folders of their own, the networks that
# they name bear this word, and whoever names the machine's first network mounts its folder.
BESIDE = "beside"
OF_TESTS_BESIDE = ("/pytest-of-", f"/run/netns/{BESIDE}", " /run/netns ")


# A process that has left its group is no trace: it goes as soon as this machine's init asks for it.
def _processes():
    processes = set()
    for process in os.listdir("/proc"):
        group = Path("/proc", process, "cgroup")
        try:
            ended = (group.parent / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            if f"/{PREFIX}" in (text := group.read_text()) and not ended and GONE not in text:
                words = (group.parent / "cmdline").read_text().replace("\0", " ")
                processes.add(f"process {group.parent.name} {words} in {text}")
        except OSError:
            pass
    return processes


def _links():
    output = subprocess.run(["ip", "-j", "link"], capture_output=True, check=True).stdout
    names = {link["ifname"] for link in json.loads(output)}
    return {f"link {name}" for name in names if not name.startswith(BESIDE)}


def _named_namespaces():
    return {f"namespace {path}" for path in _apart(Path("/run/netns").glob("*"))}


def _loops():
    output = subprocess.run(["losetup", "-nlO", "BACK-FILE"], capture_output=True, text=True).stdout
    return {f"loop device on {name}" for name in _apart(output.splitlines())}


def _apart(found):
    """These, without what is of tests that run beside."""
    return {what for what in map(str, found) if not any(word in what for word in OF_TESTS_BESIDE)}


def kept_by_the_kernel():
    """What no name tells whose it is: networks in the kernel, its groups, and memory of files."""
    slabs = Path("/proc/slabinfo").read_text().splitlines()
    found = {line.split()[0]: int(line.split()[1]) for line in slabs[2:]}
    groups = Path("/proc/cgroups").read_text().splitlines()[1:]
    lines = Path("/proc/meminfo").read_text().splitlines()
    memory = {line.split(":")[0]: int(line.split()[1]) >> 10 for line in lines}
    return {
        "networks": found.get("net_namespace", 0), "shared MiB": memory["Shmem"],
        "groups": max(int(line.split()[2]) for line in groups),
        "MiB in use": memory["MemTotal"] - memory["MemAvailable"],
    }  # fmt: skip


def snapshot(name=""):
    """What could be a box's, and all mounts; with a name only that box's, so others may be."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    mounts = {f"mount {line}" for line in _apart(lines)}
    roots = (hierarchy(), *version_1())
    groups = {f"group {path}" for root in roots for path in root.glob(f"{PREFIX}*")}
    files = {f"file {path}" for path in Path("/run/labkit").rglob("*")}
    shared = {f"file {path}" for path in Path("/dev/shm").glob("*")}
    found = _processes() | _links() | groups | files | shared | _named_namespaces() | _loops()
    return mounts | {what for what in found if name in what}


def snapshot_but_for_others(name):
    """The same of the whole machine, without what tells that it is of a box of another name."""
    other = re.compile(rf"(?:lk-|{PREFIX}|/run/labkit/)(?!{re.escape(name)}\b)")
    return {what for what in snapshot() if not other.search(what.rpartition(" in ")[2])}


@contextmanager
def another(name, made_of):
    """The lab of a box beside that of all tests, of which nothing stays; `made_of` may be TOML."""
    box.down(name)
    before = snapshot(name)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "described.toml")
        file.write_text(made_of)
        try:
            with opened(box.up(name, made_of=str(file) if "[" in made_of else made_of)) as lab:
                yield lab
        finally:
            box.down(name)
    assert snapshot(name) - before == set()


@contextmanager
def another_with_arrays(name, made_of, *programs):
    """The same of a box whose guest has disks for an array, and of these programs."""
    if why := accelerator.lacking():
        pytest.skip(f"no guests of QEMU: {why}")
    if not (found := kernel.find()) or not found.listed(False)["arrays"]:
        pytest.skip("no kernel for a guest of QEMU that has arrays of disks")
    need(*programs)
    with another(name, made_of) as lab:
        yield lab


def maker_killed(words, began, seconds):
    """Run `words`, which make a box, and kill them so many seconds after `began()` is so."""
    maker = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        awaited(lambda: began() or maker.poll() is not None, 60)
        assert maker.poll() is None, "it made the box before it could be killed"
        time.sleep(seconds)
    finally:
        maker.kill()
        maker.wait()
