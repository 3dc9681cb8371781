"""What kernels do while the slowest requests are slow: planted, and with a real busy CPU."""

import json
from contextlib import ExitStack

import numpy as np
import pytest
from waiting import alive

from labkit.charts.export import frame
from labkit.charts.why import time_line
from labkit.errors import ResultsError
from labkit.lab import Lab
from labkit.running import why
from labkit.running.why import SlowRequests
from labkit.workloads.ping import Ping

ANSWER = "[{at:.6f}] 264 bytes from 192.0.2.1: icmp_seq={n} ttl=64 time={ms:.3f} ms"


def planted(burst, slow, requests=2000):
    """Two seconds in which the CPU is busy, and requests are slow, in these stretches of 10 ms."""
    pings = [
        ANSWER.format(at=100 + n / 1000 + ms / 1000, n=n, ms=ms)
        for n in range(requests)
        if (ms := 5.0 if n // 10 in slow and n % 10 == 0 else 0.1)
    ]
    ticks, lines, counts = np.zeros(8, dtype=int), [], np.zeros(2, dtype=int)
    for n in range(requests // 10 + 1):
        busy = n - 1 in burst
        ticks = np.add(ticks, [busy, 0, 0, not busy, 0, 0, 0, 0])
        counts = np.add(counts, [100 if busy else 10, 50])
        lines += [
            f"at {7 + n / 100:.3f}", f"day {100 + n / 100:.6f}",
            f"cpu0 {' '.join(map(str, ticks))}", f"procs_running {3 if busy else 1}",
            f"intr {counts[0]}", f"ctxt {counts[1]}",
        ]  # fmt: skip
    return "\n".join(pings), "\n".join(lines)


def figures(watched):
    return {row["figure"]: (row["slow"], row["otherwise"]) for row in watched.rows()}


def test_what_is_busy_while_requests_are_slow_is_seen_and_what_is_busy_otherwise_is_not():
    ping, text = planted(burst={50, 90, 150}, slow={50, 90, 150})
    seen = figures(SlowRequests.of(ping, {"client,server": text}))
    assert seen["busy"] == (1, 0) and seen["running"] == (3, 1)
    assert seen["interrupts"] == pytest.approx((10_000, 1000))
    ping, text = planted(burst={10, 20, 30}, slow={50, 90, 150})
    seen = figures(SlowRequests.of(ping, {"client,server": text}))
    assert seen["busy"][0] == 0 < seen["busy"][1]
    assert seen["stolen"] == (0, 0)


def test_a_kernel_that_idles_before_and_after_the_requests_is_as_busy_otherwise_as_between():
    ping, text = planted(burst=set(range(50, 150)), slow={60, 90, 140})
    asked = "\n".join(ping.splitlines()[500:1500])
    assert figures(SlowRequests.of(ping, {"client": text}))["busy"][1] < 0.6
    busy = figures(SlowRequests.of(asked, {"client": text}))["busy"]
    assert busy == (1, pytest.approx(1, abs=0.02))


def test_the_time_line_has_a_lane_for_each_figure_and_a_mark_for_each_slow_request():
    ping, text = planted(burst={50}, slow={50, 90, 150})
    watched = SlowRequests.of(ping, {"client": text, "server": text})
    rows = frame(time_line(watched))
    lanes = set(rows["lane"].drop_nulls())
    assert {"round trip", "busy (client)", "stolen (server)"} <= lanes and len(lanes) == 13
    assert sum(rows["layer"] == "rule") == 3
    slowest = rows.filter(rows["lane"] == "round trip")["value"].max()
    assert slowest == pytest.approx(5000), "no spike is lost"


def test_a_kernel_that_was_not_watched_and_a_silent_server_are_named():
    ping, text = planted(burst={50}, slow={50})
    with pytest.raises(ResultsError, match="not watched to the end"):
        SlowRequests.of(ping, {"server": text[:60]})
    with pytest.raises(ResultsError, match="fewer than two answers"):
        SlowRequests.of("PING 192.0.2.1", {"server": text})


@pytest.mark.box
@pytest.mark.slow
def test_a_cpu_that_is_really_busy_is_seen_in_the_kernel_that_all_hosts_of_a_box_share(lab_file):
    lab = Lab.read(lab_file)
    quiet, busy = (SlowRequests.of(*why.watch(lab, Ping(count=1500))) for _ in _beside())
    assert [kernel.hosts for kernel in quiet.kernels] == [("client", "server")]
    means = [float(watched.kernels[0].figures["running"].mean()) for watched in (quiet, busy)]
    assert means[1] > means[0] + LOOPS / 2, "so many more tasks want to run"
    assert quiet.kernels[0].ends[-1] > quiet.sent[0] + 1.5, "watched to the end"


# So many that other tests beside, which come and go, do not matter; the last in line for a CPU.
LOOPS = 40


# First nothing runs beside, then the loops do.
def _beside():
    yield
    endless = ["nice", "-n", "19", "sh", "-c", "while :; do :; done"]
    with ExitStack() as loops:
        for _ in range(LOOPS):
            loops.enter_context(alive(endless))
        yield


@pytest.mark.box
@pytest.mark.slow
def test_the_verb_prints_a_table_and_draws(lab_file, labkit, tmp_path):
    chart = tmp_path / "why.html"
    words = ("--lab", str(lab_file), "--count", "500")
    result = labkit("why", *words, "--chart", str(chart))
    assert result.returncode == 0, result.stderr
    assert "of 500 requests took more than" in result.stdout and "stolen" in result.stdout
    assert chart.stat().st_size > 10_000
    answer = json.loads(labkit("why", *words, "--json").stdout)
    assert {row["figure"] for row in answer["rows"]} <= set(why.FIGURES) and answer["limit_us"] > 0
