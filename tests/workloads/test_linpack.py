"""LINPACK measures what the program says by hand, and what physics asks for."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from brought import HERE
from by_hand import best_of_both, insist_same
from figures import figures

from labkit.errors import HostError, ResultsError
from labkit.probes.cpu_time import over_time
from labkit.runs.capacity import Capacity, capacity, smallest
from labkit.workloads import _compiled
from labkit.workloads._compiled import compiled, digest
from labkit.workloads._sections import parted
from labkit.workloads.linpack import FIND, LIBRARIES, Linpack

PROGRAMS = ("gcc",)

SMALL = Linpack(percent=3, threads=1)
LIBRARY = HERE.run("sh", "-c", FIND, "find", LIBRARIES["openblas"][0]).stdout.strip()
MKL = HERE.run("sh", "-c", FIND, "find", LIBRARIES["mkl"][0]).stdout.strip()
pytestmark = pytest.mark.skipif(
    bool(_compiled.lacking()) or not LIBRARY, reason="no compiler, or no OpenBLAS: make system"
)
# A library that gives back what it was given.
IDLE = "void dgetrf_(void) {} void dgetrs_(void) {}"


def rate(text):
    return figures(Linpack, text)["performance"]


def rate_on(load, cpus):
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        return rate(load.run({"server": HERE}))
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.slow
def test_all_that_was_done_is_in_the_text_and_all_cpus_in_the_picture():
    text = SMALL.run({"server": HERE})
    parts = parted(text, "asked", "linpack", "cpu time")
    assert "45K=1350 65K=1950" in parts["asked"] and f"library={LIBRARY}" in parts["asked"]
    assert "OpenBLAS" in parts["linpack"] and "\nthreads 1\n" in parts["linpack"]
    busy = over_time(parts["cpu time"])
    counted = Path("/proc/stat").read_text().splitlines()
    cpus = {line.split()[0] for line in counted if line.startswith("cpu")} - {"cpu"}
    assert {row["cpu"] for row in busy} == cpus
    assert all(0 <= row["busy"] <= 1 for row in busy)
    assert f"{digest(compiled('linpack', '-ldl', '-lm'))}" in parts["asked"]


def test_a_program_that_was_lent_is_gone_afterwards_whatever_happened():
    with pytest.raises(ZeroDivisionError), _compiled.lent(HERE, some=b"#!/bin/sh\n") as paths:
        folder = Path(paths["some"]).parent
        assert folder.is_dir() and 1 / 0
    assert not folder.exists()


@pytest.mark.slow
def test_its_figure_is_that_of_the_program_run_by_hand(tmp_path):
    program = tmp_path / "linpack"
    program.write_bytes(_compiled.compiled("linpack", "-ldl", "-lm"))
    program.chmod(0o755)
    words = [str(program), LIBRARY, "1", "yes", "500", "1950"]

    def by_hand():
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return float(output.split("gflops ")[1].split()[0])

    insist_same(lambda: rate(SMALL.run({"server": HERE})), by_hand)


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_two_threads_on_one_cpu_do_half_of_what_they_do_on_two():
    two = sorted(os.sched_getaffinity(0))[:2]
    load = replace(SMALL, threads=2, percent=5)

    def twice(ratio):
        return 1.4 < ratio < 2.8

    on_two, on_one = (lambda: rate_on(load, set(two))), (lambda: rate_on(load, {two[0]}))
    assert twice(best_of_both(on_two, on_one, twice))


@pytest.mark.slow
def test_a_library_that_solves_nothing_is_found_out_by_the_residual(tmp_path):
    source, library = tmp_path / "idle.c", tmp_path / "libidle.so"
    source.write_text(IDLE)
    subprocess.run(["gcc", "-shared", "-o", library, source], check=True)
    with _compiled.lent(HERE, linpack=_compiled.compiled("linpack", "-ldl", "-lm")) as at:
        said = HERE.check(at["linpack"], str(library), "1", "no", "500", "500")
    text = f"=== asked ===\n65K=500\n=== linpack ===\n{said}\n=== cpu time ===\n"
    with pytest.raises(ResultsError, match="the result is wrong"):
        Linpack.parse(text)


def test_sizes_fit_the_smallest_place_and_what_was_asked_for_stays():
    large, small = Capacity(8, 64 << 20, 60 << 20), Capacity(1, 256 << 10, 200 << 10)
    fitted = Linpack().fitted([large, small])
    assert fitted.threads == 1 and fitted.memory < 0.4 * small.memory
    assert Linpack().fitted([large]).percent == 5
    assert Linpack(percent=100, threads=2).fitted([large, small]).sizes["65K"] == 65_000


@pytest.mark.slow
def test_a_host_without_the_memory_or_the_library_says_so_before_the_start():
    assert "of memory free" in Linpack(percent=400).lacking({"server": HERE})
    if not HERE.run("sh", "-c", FIND, "find", LIBRARIES["mkl"][0]).ok:
        assert "to get it: pip install" in Linpack(library="mkl").lacking({"server": HERE})
    assert SMALL.lacking({"server": HERE}) == ""


@pytest.mark.skipif(not MKL, reason=f"no MKL; to get it: {LIBRARIES['mkl'][1]}")
def test_mkl_solves_the_same_system_where_it_was_asked_for():
    asked = replace(SMALL, library="mkl")
    assert asked.lacking({"server": HERE}) == ""
    text = asked.run({"server": HERE})
    assert "Math Kernel Library" in text and f"library={MKL}" in text and rate(text) > 0


def test_a_program_that_is_killed_in_mid_run_is_told_as_killed(tmp_path):
    with pytest.raises(HostError, match="was killed during the run"):
        _compiled.asked_with(HERE, "it", {}, lambda _: ["sh", "-c", "kill -KILL $$"], 10, "less")


def test_the_capacity_of_this_machine_is_what_the_kernel_says():
    here = capacity(HERE)
    assert here.cpus == len(os.sched_getaffinity(0)) and here.disk == pytest.approx(
        shutil.disk_usage(here.folder).free >> 10, rel=0.2
    )
    assert 0 < here.free <= here.memory <= os.sysconf("SC_PHYS_PAGES") * 4
    both = smallest([here, Capacity(1, 5, 3, cache=9_999_999)])
    assert (both.cpus, both.memory, both.free, both.cache) == (1, 5, 3, 9_999_999)
