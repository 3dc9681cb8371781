"""Memory bandwidth in STREAM's manner is what the program says by hand, and never a cache's."""

import subprocess
from dataclasses import replace

import pytest
from brought import HERE
from by_hand import insist_same
from figures import figures

from labkit.errors import ResultsError
from labkit.runs.capacity import Capacity, capacity
from labkit.workloads import _compiled
from labkit.workloads._sections import parted
from labkit.workloads.stream import OPERATIONS, Stream

SHORT = Stream(trials=3, threads=1)
pytestmark = pytest.mark.skipif(bool(_compiled.lacking()), reason="no compiler: make system")
OPTIONS = ("-fopenmp", "-static", "-lm")


@pytest.mark.torture
@pytest.mark.parametrize("name", ["Copy", "Triad"])
def test_its_figures_are_those_of_the_program_run_by_hand(tmp_path, name):
    program = tmp_path / "stream"
    program.write_bytes(_compiled.compiled("stream", *OPTIONS))
    program.chmod(0o755)
    elements = SHORT.fitted([capacity(HERE)]).elements
    words = ["env", "OMP_NUM_THREADS=1", str(program), str(elements), "6"]

    def by_hand():
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        trials = [line.split() for line in output.splitlines() if line.startswith(f"{name} ")]
        return max(float(moved) / float(took) for _, trial, took, moved in trials if int(trial))

    def ours():
        text = replace(SHORT, trials=6).run({"server": HERE})
        return figures(Stream, text)[f"bandwidth [op={name}]"]

    insist_same(ours, by_hand)


def test_arrays_that_a_cache_could_hold_are_refused_before_and_after():
    cache = capacity(HERE).cache
    if cache:
        small = Stream(millions=max(1, cache * 1024 // 8_000_000))
        assert "would measure the caches" in small.lacking({"server": HERE})
    with pytest.raises(ResultsError, match="not memory"):
        Stream.parse(made(cache_kib=32 << 10))


def test_arrays_are_four_times_the_largest_caches_of_all_places():
    here, guest = Capacity(8, 64 << 20, 60 << 20, cache=32 << 10), Capacity(1, 1 << 20, 1 << 20)
    fitted = Stream().fitted([here, guest])
    assert fitted.elements * 8 >= 4 * (32 << 20) and fitted.threads == 1
    assert Stream(millions=2000).fitted([here]).memory >> 20 == pytest.approx(45, abs=1)
    assert "17 of 2,000 million" in fitted.scaled


def test_a_place_without_the_memory_says_so_before_the_start():
    assert "of memory free" in Stream(millions=900_000).lacking({"server": HERE})
    assert SHORT.lacking({"server": HERE}) == ""


def made(cache_kib=0, error="0.000e+00", trials=2):
    lines = [f"{name} {t} 0.5 16.0" for t in range(trials) for name in OPERATIONS]
    looks = "at 1.0\ncpu0 1 0 0 1 0 0 0 0\nat 2.0\ncpu0 2 0 0 2 0 0 0 0\n"
    return (
        f"=== asked ===\ncache_kib={cache_kib} program=x\n"
        f"=== stream ===\nelements 1000000 trials 2 threads 1 cpus 1\n" + "\n".join(lines)
        + f"\nrelative error {error}\n=== cpu time ===\n{looks}"
        "user 1.0 system 0.5 waited 1 preempted 2\n"
    )  # fmt: skip


def test_wrong_numbers_and_missing_trials_are_no_bandwidth():
    assert figures(Stream, made())["bandwidth [op=Triad]"] == 32
    with pytest.raises(ResultsError, match="wrong numbers"):
        Stream.parse(made(error="1.0e-03"))
    with pytest.raises(ResultsError, match="wrong numbers"):
        Stream.parse(made(error="nan"))
    with pytest.raises(ResultsError, match="not all trials"):
        Stream.parse(made(trials=1))
    assert "stream" in parted(made())
