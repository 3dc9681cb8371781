"""fio measures what it says by hand; a limit is kept; what takes no direct I/O is named before."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from brought import HERE
from by_hand import insist_same
from figures import figures
from small_hosts import Within

from labkit.errors import ResultsError
from labkit.host import Host
from labkit.runs.capacity import Capacity, capacity
from labkit.workloads import fio as module
from labkit.workloads._sections import parted
from labkit.workloads.fio import DIRECT, Fio

PROGRAMS = ("fio", "unshare")

SHORT = Fio(mebibytes=32, duration=1)
WHY = "no fio: make system" if not shutil.which("fio") else SHORT.lacking({"server": HERE})
needs_fio = pytest.mark.skipif(bool(WHY), reason=WHY)


def rates(text):
    found = figures(Fio, text)
    return {load: found[f"max iops [load={load}]"] for load in module.LOADS}


@needs_fio
@pytest.mark.torture
def test_its_figures_are_those_of_fio_run_by_hand():
    file = f"{capacity(HERE).folder}/labkit-by-hand"

    def by_hand():
        result = subprocess.run(SHORT.words(file), capture_output=True, text=True, check=True)
        jobs = json.loads(result.stdout)["jobs"]
        return next(j["write"]["iops"] for j in jobs if j["jobname"] == "write")

    try:
        insist_same(lambda: rates(SHORT.run({"server": HERE}))["write"], by_hand)
    finally:
        Path(file).unlink(missing_ok=True)


@pytest.mark.slow
@needs_fio
def test_a_limit_is_seen_in_each_load_and_nothing_stays():
    limited = replace(SHORT, limit=160)
    found = rates(limited.run({"server": HERE}))
    # Each kind of request is limited by itself, of reads and writes there are 160 together of each.
    assert found["read"] == pytest.approx(160, rel=0.3)
    assert found["write"] == pytest.approx(160, rel=0.3)
    assert found["mixed"] <= 2 * 160 * 1.3
    folder = capacity(HERE).folder
    assert not HERE.run("sh", "-c", f"ls {folder}/labkit-fio.*").stdout


@needs_fio
def test_a_file_system_in_memory_is_no_disk():
    done = HERE.run("sh", "-c", DIRECT, "direct", "/dev/shm")
    assert done.stdout.strip() == "tmpfs"
    assert SHORT.lacking({"server": HERE}) == ""


@needs_fio
def test_a_disk_without_the_room_says_so_before_the_start():
    assert "fewer mebibytes fit" in Fio(mebibytes=1 << 24).lacking({"server": HERE})


def test_the_file_fits_the_smallest_disk_and_what_was_asked_for_stays():
    large, small = (Capacity(2, 1, 1, disk=mebibytes << 10) for mebibytes in (100_000, 200))
    assert Fio().fitted([large]).size == 128 and Fio().fitted([large, small]).size == 80
    assert Fio(mebibytes=10_240).fitted([small]).size == 10_240


def test_the_words_are_the_document_s_three_loads_after_the_layout():
    words = Fio(mebibytes=64, duration=5).words("/f")
    names = [word.removeprefix("--name=") for word in words if word.startswith("--name=")]
    assert names == ["layout", "read", "write", "mixed"]
    assert words.count("--iodepth=16") == 2 and words.count("--iodepth=32") == 1
    assert words.count("--numjobs=8") == 3 and "--rwmixread=70" in words and "--direct=1" in words


def test_a_load_that_failed_or_did_nothing_is_no_figure():
    text = (Path(__file__).parents[1] / "cases/Fio/three_loads/stdout.txt").read_text()
    assert parted(text, "asked", "fio", "cpu time")
    with pytest.raises(ResultsError, match="ended with error 5"):
        Fio.parse(text.replace('"error" : 0', '"error" : 5'))
    with pytest.raises(ResultsError, match="no mixed"):
        Fio.parse(text.replace('"jobname" : "mixed"', '"jobname" : "other"'))


@pytest.mark.slow
@needs_fio
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount here")
@pytest.mark.parametrize(("mount", "said"), [
    ("mount -t tmpfs tmpfs {folder}",
     r"\(tmpfs\) takes no direct I/O: it is in memory, not on a disk"),
    ("mount -t tmpfs -o size=64k tmpfs {folder}", "fewer mebibytes fit"),
])  # fmt: skip
def test_a_file_system_without_direct_io_or_room_is_named_before_the_start(mount, said):
    script = f'{mount.format(folder=capacity(HERE).folder)} && exec "$@"'
    on_it = Host("here", "127.0.0.1", Within(("unshare", "-m", "sh", "-c", script, "on")))
    if (done := on_it.run("true")).code:
        pytest.skip(f"this kernel has no such file system: {done.stderr}")
    assert re.search(said, SHORT.lacking({"server": on_it}))
