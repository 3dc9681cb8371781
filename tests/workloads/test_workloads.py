"""What the tools really printed, and how each workload reads it."""

import importlib
import json
import pkgutil
import shutil
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from brought import HERE
from hypothesis import given, settings
from hypothesis import strategies as st
from small_hosts import Within
from waiting import awaited

from labkit import workloads
from labkit.errors import BadInput, HostError, ResultsError
from labkit.host import Host
from labkit.results import Results
from labkit.running.remarks import remarks
from labkit.study import Study
from labkit.transports.local import Local
from labkit.workload import Workload
from labkit.workloads import _pairs as pairs
from labkit.workloads import shared_host
from labkit.workloads.netperf import Netperf
from labkit.workloads.ping import Ping
from labkit.workloads.sockperf import Sockperf

PROGRAMS = ("busybox",)

CASES = sorted((Path(__file__).parents[1] / "cases").glob("*/*"))
for module in pkgutil.iter_modules(workloads.__path__):
    importlib.import_module(f"labkit.workloads.{module.name}")
KNOWN = {one.__name__: one for one in Workload.__subclasses__()}


def real(case):
    return (Path(__file__).parents[1] / "cases" / case / "stdout.txt").read_text("utf-8")


REAL = real("Ping/one_millisecond")


# expected.json holds either the samples, or the words of the refusal.
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.name}")
def test_each_output_is_read_as_expected(case):
    text = (case / "stdout.txt").read_text("utf-8")
    expected = json.loads((case / "expected.json").read_text())
    parse = KNOWN[case.parent.name].parse
    if isinstance(expected, dict):
        with pytest.raises(ResultsError) as error:
            parse(text)
        assert expected["refused"] in str(error.value)
    else:
        assert [
            {"metric": one.metric, "unit": one.unit, "lost": one.lost,
             "values": [round(float(value), 6) for value in one.values]} for one in parse(text)
        ] == expected  # fmt: skip


def ping_text(numbers, sent=None):
    """What ping prints when the requests `numbers` are answered, in that order."""
    one = "[1.5] 264 bytes from 192.0.2.1: icmp_seq={} ttl=64 time={:.3f} ms"
    answers = [one.format(n % 65536, 1 + n % 1000 / 1000) for n in numbers]
    end = f"{sent or len(numbers)} packets transmitted, {len(numbers)} received, some lost"
    return "\n".join(["PING 192.0.2.1 (192.0.2.1) 256(284) bytes of data.", *answers, "", end, ""])


@pytest.mark.slow
def test_the_number_of_a_request_starts_again_after_65535():
    numbers = range(1, 140_001)
    (sample,) = Ping.parse(ping_text(numbers))
    assert sample.lost == 0
    assert np.allclose(sample.values, [1000 + n % 1000 for n in numbers])


@pytest.mark.slow
def test_late_answers_are_put_in_sending_order_across_the_wrap():
    numbers = [*range(1, 65_530), 65_536, 65_534, 65_540, 65_530]
    (sample,) = Ping.parse(ping_text(numbers, sent=65_540))
    assert list(sample.values[-4:]) == [1530, 1534, 1536, 1540]
    assert sample.lost == 65_540 - len(numbers)


def test_two_runs_in_one_file_are_refused():
    with pytest.raises(ResultsError):
        Ping.parse(REAL + REAL)


@given(st.text(alphabet="0123456789. \n=()msicp_eqtlADUP!", max_size=200))
def test_numbers_of_any_size_are_read_or_refused(noise):
    line = f"264 bytes from a: icmp_seq={noise} ttl=64 time={noise} ms"
    reads_or_refuses(Ping, f"{line}\n{noise} packets transmitted, {noise} received, 0%")


def reads_or_refuses(tool, text):
    try:
        found = tool.parse(text)
    except ResultsError:
        return
    assert found and all(one.lost >= 0 and len(one.values) for one in found)
    assert all(np.isfinite(one.values).all() for one in found)


# Of each load, what some of its knobs cannot be.
IMPOSSIBLE = {
    "DesktopSessions": {"encoding": ["jpeg"], "task": ["resting"], "protocol": ["ica"],
                        "steps": ["", "2 7", "0"], "think": [0], "good": [61], "duration": [0.1],
                        "warm_up": [-1]},
    "DiskArray": {"kind": ["mirror"], "allocated": [0], "depth": [0], "reads": [100], "used": [4],
                  "latency": [-1]},
    "DvdStore": {"engine": ["oracle"], "durability": ["no"], "users": [0], "duration": [0],
                 "size": ["1MB"], "way": ["fax"], "instances": [0], "think": [-1.0]},
    "DistributedQuery": {"way": ["post"], "cache": [1.5], "factor": [0.0], "streams": [0, 17],
                         "warm": ["yes"]},
    "Fio": {"duration": [0], "mebibytes": [-1], "limit": [3], "jobs": [1.0]},
    "FiveTests": {"duration": [0], "percent": [-1], "trials": [1]},
    "Linpack": {"percent": [-1], "threads": [1.5], "library": ["atlas"]},
    "Management": {"hosts": [0], "vms": [0, 40_001], "part": [0], "token_ms": [99],
                   "duration": [0]},
    "Netperf": {"test": ["TCP_CRR"], "size": [0], "duration": [0, 1.5]},
    "Ping": {"size": [8, 70_000], "interval": [0, float("nan")], "count": [0]},
    "Redis": {"test": ["sett"], "keys": [100_000_000_000], "clients": [0], "duration": [1.5]},
    "Sockperf": {"protocol": ["sctp"], "size": [0], "duration": [0, 1.5]},
    "Stream": {"millions": [-1], "trials": [1], "threads": [True]},
    "Streams": {"streams": [0, 33], "buffer": [100]},
    "TeraSort": {"rows": [10], "nodes": [0]},
    "TileLoad": {"kind": ["mirror"], "allocated": [0], "steps": ["", "0", "26", "1 \u0663", "1,7"],
                 "limit": [0.5], "think": [0.0], "duration": [0]},
    "Uplink": {"duration": [0], "writes": [0, 257], "storage_mbit": [-1], "reserved_mbit": [-1]},
    "Viewing": {"load": ["Heavy CAD"], "encoding": ["jpeg"], "duration": [0.5, "long"]},
    "WebSessions": {"shapes": ["bank", ""], "steps": ["0", "1,2", "17"], "duration": [0.0],
                    "tolerable": [0.1], "sessions": [-1], "think": [0.0]},
}  # fmt: skip


@pytest.mark.parametrize("load, knob", [(a, b) for a, knobs in IMPOSSIBLE.items() for b in knobs])
def test_what_a_load_cannot_have_is_refused_by_name(load, knob):
    for value in IMPOSSIBLE[load][knob]:
        with pytest.raises(BadInput, match=knob.removesuffix("s")) as error:
            KNOWN[load](**{knob: value})
        known = KNOWN[load].__dataclass_fields__[knob].metadata.get("known", ())
        assert all(word in str(error.value) for word in known), "what it can have is listed"


@pytest.mark.parametrize("load, knobs, said", [
    ("DvdStore", {"new_customers": 101.0}, "new customers must be 0 to 100 %"),
    ("Netperf", {"size": 100_000, "free": True}, "size must be 14 to 65507"),
    ("TeraSort", {"lose": True}, "lost data are gone"),
    ("TeraSort", {"lose": True, "nodes": 2, "replication": 1}, "lost data are gone"),
    ("Uplink", {"writes": 257}, "uplink: writes must be 1 to 256, not 257"),
])  # fmt: skip
def test_knobs_that_do_not_go_together_are_refused_and_a_range_is_said(load, knobs, said):
    with pytest.raises(BadInput, match=said):
        KNOWN[load](**knobs)


OTHERS = [(Netperf, real("Netperf/tcp_rr")), (Sockperf, real("Sockperf/tcp"))]


@pytest.mark.parametrize("tool, text, step", [*((*one, 1) for one in OTHERS), (Ping, REAL, 97)],
                         ids=lambda value: getattr(value, "__name__", ""))  # fmt: skip
def test_cuts_through_what_a_tool_printed_are_refused(tool, text, step):
    whole = len(text) - 60 if tool is Ping else len(text.rstrip("-\n" if tool is Sockperf else ""))
    for end in range(0, whole, step):
        with pytest.raises(ResultsError):
            tool.parse(text[:end])


@given(st.sampled_from([*OTHERS, (Ping, REAL)]), st.integers(0, 2000), st.integers(0, 4000),
       st.text())  # fmt: skip
def test_what_any_tool_printed_is_read_or_refused_however_it_was_damaged(real, at, gone, instead):
    tool, text = real
    reads_or_refuses(tool, text[:at] + instead + text[at + gone :])


READABLE = [(KNOWN[case.parent.name], (case / "stdout.txt").read_text("utf-8")) for case in CASES
            if isinstance(json.loads((case / "expected.json").read_text()), list)]  # fmt: skip
# A number that is too large, or none; letters that Python takes for digits; an end too early.
DAMAGE = ["", "NaN", "-1", "1e999", "9" * 30, "\u0663", "\n", "=== ", "{"]


@pytest.mark.slow
@settings(max_examples=600)
@given(st.sampled_from(READABLE), st.floats(0, 1), st.integers(0, 40),
       st.sampled_from(DAMAGE), st.booleans())  # fmt: skip
def test_every_workload_reads_or_refuses_what_was_damaged_anywhere(real, at, gone, instead, cut):
    tool, text = real
    place = int(at * len(text))
    reads_or_refuses(tool, text[:place] + instead + ("" if cut else text[place + gone :]))


@pytest.mark.parametrize("section", ["sent 2000", "guest 2000", "host 2000", "guest 500"])
@pytest.mark.parametrize("name", ["sent 2000\u0663", "sent 1e999", "x"])
def test_a_section_of_another_name_is_refused(section, name):
    text = real("PacketRate/two_rates")
    assert f"=== {section} ===" in text
    with pytest.raises(ResultsError):
        KNOWN["PacketRate"].parse(text.replace(f"=== {section} ===", f"=== {name} ==="))


def test_what_openonload_says_of_itself_stays_beside_what_sockperf_says():
    """In the form of its manual; none was at hand."""
    text = real("Sockperf/tcp")
    said = "oo:sockperf[42]: Using Onload 8.1.2 [3]\noo:sockperf[42]: Copyright 2019-2023 Xilinx\n"
    (plain,), (beside,) = Sockperf.parse(text), Sockperf.parse(said + text)
    assert list(beside.values) == list(plain.values)


def test_what_several_pairs_printed_is_read_as_one_distribution_and_lost_ones_are_counted():
    lost = real("Ping/lost_one")
    both = f"{pairs.MARK}guest\n{REAL}{pairs.MARK}guest2\n{lost}"
    (one,), (two,) = Ping.parse(REAL), Ping.parse(lost)
    (sample,) = pairs.parse(Ping(), both)
    assert list(sample.values) == [*one.values, *two.values] and sample.lost == one.lost + two.lost
    assert pairs.texts(both) == {"guest": REAL, "guest2": lost}


def test_text_before_the_first_pair_is_refused():
    with pytest.raises(ResultsError, match="before"):
        pairs.parse(Ping(), f"something\n{pairs.MARK}guest\n{REAL}")


def test_a_workload_that_knows_no_pairs_says_so():
    class Alone(Ping):
        asking = Workload.asking

    with pytest.raises(BadInput, match="alone cannot run between several pairs"):
        Alone().asking({})


@pytest.mark.parametrize("failing", ["", "two"])
def test_servers_of_several_pairs_get_ready_together_and_none_stays_where_one_fails(failing):
    met, ended = threading.Barrier(2, timeout=60), []

    class Served(Ping):
        @contextmanager
        def asking(self, hosts):
            met.wait()
            if hosts["server"].name == failing:
                raise HostError("it cannot serve")
            try:
                yield ("echo", hosts["server"].name)
            finally:
                ended.append(hosts["server"].name)

    host = {name: Host(name, "127.0.0.1", Local(name)) for name in ("one", "two", "client")}
    asked = {name: {"client": host["client"], "server": host[name]} for name in ("one", "two")}
    if failing:
        with pytest.raises(HostError, match="it cannot serve"):
            pairs.run(Served(), asked)
        assert ended == ["one"]
    else:
        said = pairs.run(Served(), asked)
        assert pairs.texts(said) == {"one": "one\n", "two": "two\n"}
        assert sorted(ended) == ["one", "two"]


def test_a_count_that_is_half_written_is_not_read(tmp_path):
    (tmp_path / "counts").write_text("131040\n131060\n13")
    assert shared_host.counted(HERE, str(tmp_path / "counts")).split()[0] == "131060"


def test_a_host_computes_and_counts_until_it_is_told_to_end():
    with shared_host.computing({"mine": HERE}) as files:
        (file,) = files.values()
        awaited(lambda: shared_host.COUNT.fullmatch(shared_host.counted(HERE, file).strip()))
    assert not Path(file).parent.exists()


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_workload_says_whether_it_waits_and_names_the_programs_whose_versions_are_kept(name):
    known = {"ping", "netperf", "sockperf", "iperf3", "fio", "nbdkit", "nutcracker", "haproxy"}
    known |= {"perl", "nginx", "corosync", "pacemakerd", "java", "Xvnc", "openscad", "glmark2"}
    known |= {"xrdp", "python3", "redis-server", "redis-benchmark"}
    assert KNOWN[name].loop in ("open", "closed", "") and set(KNOWN[name].programs) <= known
    assert KNOWN[name].programs or not KNOWN[name].loop, "a program of ours is kept by its digest"


def test_a_study_whose_workload_waits_for_each_answer_says_what_that_hides(tmp_path):
    results = Results.begin(tmp_path / "r", {})
    waits = Study("waits", "t", "q", "s", Sockperf(), (), "round trip", "us", ())
    sends = replace(waits, workload=Ping())
    (said,) = remarks(waits, results)
    assert "a closed loop" in said and "far percentiles look better than they are" in said
    assert remarks(sends, results) == []


@pytest.mark.parametrize("turn", [lambda lines: lines[::-1], lambda lines: [*lines, lines[3]]])
def test_answers_out_of_order_or_twice_are_those_in_order_once(turn):
    begin, *answers = REAL.splitlines(keepends=True)
    end = answers.index("\n")
    (usual,), (other,) = (
        Ping.parse("".join([begin, *lines, *answers[end:]]))
        for lines in (answers[:end], turn(answers[:end]))
    )
    assert other.values.tolist() == usual.values.tolist()


def test_a_ping_that_is_not_of_iputils_leaves_its_conditions_out_with_the_reason(tmp_path):
    """The text is what BusyBox says, which knows no -D."""
    if not shutil.which("busybox"):
        pytest.skip("no busybox; to get it: make system-test")
    (tmp_path / "ping").symlink_to(shutil.which("busybox"))
    first = ("env", f"PATH={tmp_path}:/usr/bin:/bin")
    client = Host("small", "127.0.0.1", Within(first))
    assert "not that of iputils" in Ping().lacking({"client": client})
