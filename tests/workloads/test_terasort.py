"""TeraSort: what its clusters are told, which of its runs count, and what a real cluster does."""

import re
import socket
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from brought import HERE, bring
from figures import figures
from waiting import alive

from labkit import studies
from labkit.changes.in_force import applied
from labkit.errors import HostError, ResultsError
from labkit.lab import opened
from labkit.settings.egress import Link
from labkit.statistics.measurand import Measurand
from labkit.workloads import _hadoop, terasort
from labkit.workloads.terasort import NODES, TeraSort

PROGRAMS = ("mount", "umount", "sleep")

TEXT = (Path(__file__).parents[1] / "cases/TeraSort/two_guests/stdout.txt").read_text("utf-8")
VALUES = dict.fromkeys(
    ("master", "folder", "home", "address", "data", "local", "replication", "block",
     "slot", "memory", "maps", "reduces", "port", "port1", "port2", "port3", "port4"), "5"
)  # fmt: skip


def test_every_setting_of_a_cluster_is_filled_in_and_shown_in_the_run():
    settings = {n: v for rows in _hadoop.filled(VALUES).values() for n, v in rows.items()}
    assert not [value for value in settings.values() if set("{}") & {*value}]
    lines = TEXT.partition("=== settings ===\n")[2].partition("\n===")[0].splitlines()
    assert [line.partition(" = ")[0] for line in lines] == [*settings]


def test_each_jar_is_there_once_with_its_hash_and_those_that_hadoop_is_made_of_have_its_version():
    lines = (_hadoop.HERE / "_hadoop.lock").read_text().splitlines()
    assert len(_hadoop.jars()) == len(lines) > 80
    own = {name: row[2] for name, row in _hadoop.jars().items() if row[0] == "org.apache.hadoop"}
    assert set(own.values()) == {_hadoop.VERSION} and len(own) > 12


def test_a_run_whose_rows_are_others_after_the_sort_does_not_count():
    copies = figures(TeraSort, TEXT)["copies"]
    assert copies == pytest.approx(2, abs=0.1), "with a few files of the jobs"
    other = re.sub(r"^checksum\t.", "checksum\t0", TEXT, flags=re.MULTILINE)
    assert other != TEXT
    with pytest.raises(ResultsError, match="not those that were generated"):
        TeraSort.parse(other)
    with pytest.raises(ResultsError, match="not sorted"):
        TeraSort.parse(TEXT.replace("checksum\t", "error\tmisorder\nchecksum\t"))


def test_a_run_that_was_cut_off_does_not_count():
    for part in ("sort", "stored", "result"):
        with pytest.raises(ResultsError):
            TeraSort.parse(TEXT.replace(f"=== {part} ===\n", ""))


def test_copies_and_memory_are_divided_among_the_nodes():
    load = TeraSort()
    assert load.copies == 1 and replace(load, nodes=4, replication=3).copies == 3
    assert replace(load, per_host=4).memory_of_node == load.memory // 4
    assert replace(load, per_host=100).memory_of_node >= 192, "one task needs so much"


def test_a_condition_at_a_point_of_its_own_is_found_by_what_is_claimed_of_it():
    found = Measurand.measured("elapsed time [job=sort]", "VM [vms=4]", "elapsed time")
    assert str(found) == "VM [vms=4, job=sort]" and found.is_of("VM [vms=4]")
    assert found.before("job=sort") == "VM [vms=4]" and not found.before("vms=4")
    assert Measurand.of("Native [job=sort]").is_of("Native")
    assert not Measurand.of("VM [vms=20, job=sort]").is_of("VM [vms=2]")


@pytest.mark.parametrize("name", ["hadoop_v6", "hadoop_v51"])
def test_the_document_s_hosts_and_guests_can_be_asked_for(name):
    study = studies.find(name).at_scale("document")
    of = {condition.name: condition.load(study.workload) for condition in study.conditions}
    assert {of[name].nodes for name in of if name.startswith("Native")} == {32}
    assert of["VM [vms=4, cores=4]"].nodes == 128 and of["VM [vms=4, cores=4]"].cores == 8


def test_ports_that_somebody_has_are_left_to_him_and_no_others_are_named(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(_hadoop, "PORTS", range(port, port + 80, 8))
        assert port < _hadoop._free(HERE) < port + 80
        monkeypatch.setattr(_hadoop, "PORTS", range(port, port + 8, 8))
        with pytest.raises(HostError, match=f"no 5 ports in a row are free from {port} on"):
            _hadoop._free(HERE)


@contextmanager
def called_java(*words):
    """A process that is listed as Java with these words."""
    with alive((f"{' '.join(words)}/java", "60"), executable="/bin/sleep") as process:
        yield process


DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"


def test_a_hadoop_that_is_somebody_else_s_is_named_and_goes_on():
    with called_java(DATA_NODE) as other:
        cluster = _hadoop.cluster(HERE, {HERE.name: HERE}, VALUES, {})
        with pytest.raises(HostError, match="no cluster can be set up") as error, cluster:
            pytest.fail("it must not begin")
        assert f"another Hadoop runs here: process {other.pid}" in error.value.said
        assert other.poll() is None and "changes nothing" in error.value.hint


def test_what_a_run_left_that_was_killed_is_ended_before_the_next(tmp_path):
    left, folder = tmp_path / "hadoop-0000" / "conf", tmp_path / "hadoop-1111"
    left.mkdir(parents=True)
    with called_java(DATA_NODE, "-cp", str(left)) as ours:
        _hadoop._set_up(HERE, str(folder), {"core": {"fs.defaultFS": "file:///"}})
        assert ours.wait(10) == -9 and not left.exists()
    assert "fs.defaultFS" in (folder / "conf/core-site.xml").read_text()


def test_nodes_on_one_kernel_get_different_cpus_of_those_that_are_to_be_used(monkeypatch):
    nodes = {name: replace(HERE, name=name) for name in ("a", "b", "c", "d")}
    monkeypatch.setattr(terasort, "CPUS", "echo one; echo 0-7")
    assert TeraSort(nodes=4, per_host=4)._cpus(nodes) == {
        "a": "0-1", "b": "2-3", "c": "4-5", "d": "6-7",
    }  # fmt: skip
    few = TeraSort(nodes=4, per_host=4, cores=2)._cpus(nodes)
    assert few == {"a": "0", "b": "0", "c": "1", "d": "1"}
    assert TeraSort(cores=3)._cpus({"a": nodes["a"]}) == {"a": "0-2"}
    monkeypatch.setattr(terasort, "CPUS", "cat /proc/sys/kernel/random/uuid; echo 0-3")
    guests = TeraSort(nodes=4, per_host=4, cores=8)._cpus(nodes)
    assert {*guests.values()} == {"0-1"}, "each guest has CPUs of its own"


@contextmanager
def lab_of(box_of):
    """A box with Hadoop, and roles of a cluster on so many of its guests."""
    bring(TeraSort())
    with opened(box_of("hadoop")) as lab:

        def roles(*nodes):
            played = dict(zip(NODES, map(lab.host, nodes), strict=False))
            return {"client": lab.host("client"), "host": lab.host("server"), **played}

        yield roles


LEFT = """
ls -d /run/labkit/scratch/hadoop-* 2>/dev/null
grep -l -a 'org[.]apache[.]hadoop' /proc/[0-9]*/cmdline 2>/dev/null
true
"""


def left_on(hosts):
    """Folders and processes of Hadoop that are on these hosts."""
    return "".join(host.check("sh", "-c", LEFT) for host in hosts.values())


GUESTS = ("guest", "guest2", "guest3")


@pytest.mark.box
@pytest.mark.slow
@pytest.mark.when_changed("labkit/workloads/_hadoop.py", "labkit/workloads/terasort.py")
def test_a_datanode_lost_in_mid_sort_costs_no_data_and_three_copies_three_times_the_bytes(box_of):
    load = TeraSort(nodes=3, replication=3, lose=True)
    with lab_of(box_of) as roles:
        hosts = roles(*GUESTS)
        found = load.run(hosts)
        assert "the DataNode of guest3 was ended" in found
        figure = figures(TeraSort, found)
        assert figure["copies"] == pytest.approx(3, abs=0.15)
        assert figure["bytes written [job=sort]"] == 32_000_000
        assert left_on(hosts) == ""


@pytest.mark.box
@pytest.mark.slow
@pytest.mark.when_changed("labkit/workloads/_hadoop.py", "labkit/workloads/terasort.py")
def test_a_host_without_memory_for_java_is_named_before_anything_starts(box_of, monkeypatch):
    with lab_of(box_of) as roles:
        hosts = roles("guest")
        assert TeraSort().lacking(hosts) == ""
        monkeypatch.setattr(terasort, "LEAST_MIB", 1 << 30)
        assert "MiB of memory free, and Java takes 1073741824" in TeraSort().lacking(hosts)
        monkeypatch.setattr(_hadoop, "HOME", "/nowhere")
        assert "is missing on client, to get it: labkit prepare hadoop_v6" in TeraSort().lacking(
            hosts
        )


@pytest.mark.box
@pytest.mark.slow
@pytest.mark.torture
def test_a_disk_that_is_full_in_mid_sort_is_named_and_nothing_is_left(box_of):
    with lab_of(box_of) as roles:
        hosts = roles("guest")
        guest = hosts["server"]
        guest.check("mkdir", "-p", "/tmp/small")
        guest.check("mount", "-t", "tmpfs", "-o", "size=52m", "tmpfs", "/tmp/small")
        try:
            with pytest.raises(HostError, match="the job to sort failed") as error:
                TeraSort(rows=320_000, disks="/tmp/small").run(hosts)
            assert "a disk is full" in error.value.hint
            assert left_on(hosts) == "" and not guest.check("ls", "/tmp/small")
        finally:
            guest.check("umount", "/tmp/small")


@pytest.mark.box
@pytest.mark.slow
@pytest.mark.torture
def test_two_nodes_with_a_cpu_each_sort_faster_than_one(box_of):
    with lab_of(box_of) as roles:
        hosts = roles(*GUESTS)
        load = TeraSort(rows=1_280_000, replication=1, cores=1)
        two, one = (figures(load, replace(load, nodes=nodes).run(hosts)) for nodes in (2, 1))
    assert two["elapsed time"] < one["elapsed time"], (two, one)


@pytest.mark.box
@pytest.mark.slow
@pytest.mark.torture
def test_a_datanode_lost_in_mid_sort_costs_time_where_the_network_is_the_slower_way(box_of):
    """Its node computes on, and reads and writes over the network what it had on its own disk."""
    load = TeraSort(rows=2_000_000, nodes=2, replication=2, cores=1)
    with lab_of(box_of) as roles:
        hosts = roles("guest", "guest2")
        slow = [Link(40, role=role) for role in NODES[:2]]
        with applied(slow, hosts):
            runs = (replace(load, lose=lose).run(hosts) for lose in (False, True))
            safe, lost = (figures(load, text) for text in runs)
    assert lost["bytes written [job=sort]"] == safe["bytes written [job=sort]"]
    took = "elapsed time [job=sort]"
    assert lost[took] > 1.05 * safe[took], (lost, safe)
