"""What counts on a host again and again, beside the command that does it once."""

import re
import time

import pytest
from brought import HERE

from labkit.errors import HostError
from labkit.gates import counter, gate
from labkit.gates.counter import counting
from labkit.gates.gate import collect, gates

PROGRAMS = ("perl",)

PLAIN = ("sh", "-c", counter.SHELL, "labkit", gate.SCRIPT)
PROCESS = re.compile(r"/proc/\d+/stat:")


@pytest.fixture(params=[counter.WORDS, PLAIN], ids=["perl", "shell"])
def way(request, monkeypatch):
    monkeypatch.setattr(counter, "WORDS", request.param)


def kinds(text):
    """Of each line the file and its first word, or that it is a number; but not of processes."""
    lines = [line for line in text.splitlines() if not PROCESS.match(line)]
    return [re.sub(r":\s*[\d.].*", ":number", line).split(" ")[0] for line in lines]


@pytest.mark.slow
def test_both_ways_count_what_the_single_command_does_and_in_the_same_words(ssh, way):
    with counting() as counters:
        told = counters.collect(ssh)
    asked = collect(ssh)
    assert sorted(kinds(told)) == sorted(kinds(asked))
    assert "/proc/1/stat:1 (" in told and told.endswith("end:\n")
    assert [one.name for one in gates(told, asked, 1.0, slack=60)] == [
        one.name for one in gates(asked, asked, 1.0)
    ]


def test_what_nics_count_is_the_same_asked_in_one_go_and_read_file_by_file():
    functions = counter.PERL[: counter.PERL.index("while (sysread(STDIN")]
    lines = HERE.check("perl", "-we", f"{functions}\nprint links()").splitlines()
    read = HERE.check("perl", "-we", f"{functions}\nprint files()").splitlines()
    assert sorted(lines) == sorted(read)
    assert "/sys/class/net/lo/statistics/rx_missed_errors:0" in lines


def test_each_answer_is_of_the_moment_when_it_was_asked_for(way):
    with counting() as counters:
        times = []
        for _ in range(3):
            before = time.time()
            date = float(re.search(r"date:([\d.]+)", counters.collect(HERE))[1])
            times.append(before - 0.01 <= date <= time.time() + 0.01)
    assert times == [True] * 3


@pytest.mark.slow
def test_one_that_has_ended_is_started_again(ssh, server, way):
    with counting() as counters:
        counters.collect(ssh)
        _, pipe = counters._there[ssh]
        pipe.channel.close()
        assert "/proc/uptime:" in counters.collect(ssh)
        assert counters._there[ssh][1] is not pipe


def test_what_answers_something_else_is_not_believed(monkeypatch):
    for said, why in [
        ("hello", "sent 'hello'"),
        ("9\nabc", "counter on here stopped"),
        ("-1", "sent '-1'"),
    ]:
        monkeypatch.setattr(counter, "WORDS", ("sh", "-c", f"read -r a; echo '{said}'"))
        with counting() as counters, pytest.raises(HostError, match=why):
            counters.collect(HERE)


def test_none_stays_when_the_study_has_ended(way):
    with counting() as counters:
        counters.collect(HERE)
        process = counters._there[HERE][1].channel._process
    assert process.poll() is not None
