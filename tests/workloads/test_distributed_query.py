"""Queries on several nodes: right answers by each way, and clear words where something is amiss."""

import json
import os
import signal
import socket
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from brought import commands, own_address
from figures import figures
from small_hosts import Within

from labkit.changes.in_force import applied
from labkit.errors import HostError
from labkit.host import Host
from labkit.lab import opened
from labkit.studies.vsan_sapiq import study
from labkit.transports.local import Local
from labkit.workloads import _query_node as node
from labkit.workloads import _query_tables as tables
from labkit.workloads import distributed_query
from labkit.workloads._own_place import own_folder
from labkit.workloads.distributed_query import DistributedQuery

OURS = tuple(
    f"labkit/{name}" for name in
    ("workloads/_query", "workloads/distributed_query.py", "workloads/_server.py",
     "studies/vsan_sapiq.py")
)  # fmt: skip
SMALL = DistributedQuery(factor=0.02, streams=1)
AT = own_address(78)


@pytest.fixture
def hosts():
    """All on this machine; that of the store has a name of its own."""
    if why := tables.lacking():
        pytest.skip(why)
    return {role: Host(role, AT, Local(role)) for role in DistributedQuery.roles}


@pytest.mark.slow
@pytest.mark.parametrize(("way", "cache", "warm", "low", "high"), [
    ("storage", 0.7, True, 0.55, 0.85), ("network", 1.0, False, 0.2, 0.8),
    pytest.param("network", 1.0, True, 1, 1, marks=pytest.mark.when_changed(*OURS)),
    pytest.param("storage", 0.0, False, 0, 0, marks=pytest.mark.when_changed(*OURS)),
])  # fmt: skip
def test_each_way_gives_the_answers_of_a_single_database_and_a_cache_has_its_share(
    hosts, way, cache, warm, low, high
):
    """The leader compares answers, so that a run with another one fails."""
    text = replace(SMALL, way=way, cache=cache, warm=warm).run(hosts)
    queries = [line["query"] for line in map(json.loads, text.splitlines()) if "query" in line]
    assert sorted(queries) == sorted(node.QUERIES)
    found = figures(SMALL, text)
    assert found["intermediate"] > 0.1 and low <= found["hit rate"] <= high
    assert (found["read from store"] == 0) == (low == 1)


def status(url, method="GET", body=None):
    try:
        return urlopen(Request(url, data=body, method=method), timeout=10).status
    except HTTPError as error:
        return error.code


# The store's server runs as another user, who may not enter the folders of pytest.
@pytest.fixture
def served_folder():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.slow
def test_who_does_not_know_the_secret_gets_no_answer_and_leaves_nothing(hosts, served_folder):
    (served_folder / "manifest.json").write_text("{}")
    secrets = Path(own_folder(hosts["store"]))
    before = {*secrets.glob("query-*")}
    order = json.dumps({"query": "goods", "parts": [], "data": "", "to": f"http://{AT}:9"}).encode()
    exchange = node._exchange(AT, 0, "right")
    threading.Thread(target=exchange.serve_forever, daemon=True).start()
    with (
        distributed_query._files(hosts["store"], "store", "right", str(served_folder)) as store,
        distributed_query._files(hosts["leader"], "cache", "right", store, "70") as cache,
        distributed_query._worker(hosts["worker"], "right") as worker,
    ):
        assert not any(b"right" in words for words in commands())
        at = f"http://{AT}:{exchange.server_port}"
        for secret, got, put in (("right", 200, 201), ("wrong", 404, 405), ("", 404, 405)):
            computed, kept = (500, 201) if secret == "right" else (403, 403)
            for server in (store, cache):
                assert status(f"{server}/{secret}/data/manifest.json") == got
            assert status(f"{store}/{secret}/shared/part", "PUT", b"part") == put
            assert status(f"{worker}/{secret}", "POST", order) == computed
            assert status(f"{at}/{secret}/part", "PUT", secret.encode()) == kept
    assert exchange.parts == {"part": b"right"}
    exchange.shutdown()
    exchange.server_close()
    assert {*secrets.glob("query-*")} == before


@pytest.mark.slow
@pytest.mark.when_changed(*OURS)
def test_a_port_for_partial_answers_that_somebody_has_is_named(hosts):
    with (
        socket.create_server((AT, distributed_query.EXCHANGE_PORT)),
        pytest.raises(HostError, match="the leader gave up") as error,
    ):
        SMALL.run(hosts)
    assert f"TCP port 9480 of {AT}" in str(error.value) and "in use" in str(error.value)


@pytest.fixture
def altered(hosts, monkeypatch, served_folder):
    """A store with other tables: what is changed of the manifest, before it is served."""
    kept = Path(tables.bring(hosts["store"], SMALL.factor))
    for file in kept.iterdir():
        (served_folder / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(tables, "bring", lambda *_: str(served_folder))
    return served_folder


@pytest.mark.slow
@pytest.mark.when_changed(*OURS)
@pytest.mark.parametrize(("change", "said"), [
    ({"scale": 1.0}, "the data is of scale 1, not of 0.02"),
    ({"answers": dict.fromkeys(node.QUERIES, "other")}, "another one than that of a single"),
])  # fmt: skip
def test_data_of_another_scale_or_with_other_answers_is_named(hosts, altered, change, said):
    manifest = json.loads((altered / "manifest.json").read_text())
    (altered / "manifest.json").write_text(json.dumps({**manifest, **change}))
    with pytest.raises(HostError, match="the leader gave up") as error:
        SMALL.run(hosts)
    assert said in str(error.value)


@pytest.mark.slow
@pytest.mark.when_changed(*OURS)
def test_a_node_that_cannot_compute_is_named_with_its_query(hosts, altered):
    for file in altered.glob("lineitem-02-*"):
        file.write_bytes(b"no columns")
    with pytest.raises(HostError, match="worker2 could not compute the query") as error:
        SMALL.run(hosts)
    assert "ArrowInvalid" in str(error.value)


@pytest.mark.slow
@pytest.mark.when_changed(*OURS)
def test_a_worker_that_is_lost_in_the_middle_is_named_with_its_query(hosts, monkeypatch):
    killed = []
    serve = distributed_query._worker

    @contextmanager
    def watched(host, secret):
        with serve(host, secret) as url:
            if host.name == "worker3":
                timer = threading.Timer(1.0, kill, [url.rpartition(":")[2], killed])
                timer.start()
            yield url

    monkeypatch.setattr(distributed_query, "_worker", watched)
    with pytest.raises(HostError, match="worker3 was lost in the middle of the query"):
        replace(SMALL, factor=0.2, streams=8).run(hosts)
    assert killed


# The one process whose last words are its address and this port.
def kill(port, killed):
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        words = file.read_bytes().split(b"\0")[:-1]
        if words[-3:-1] == [AT.encode(), port.encode()] and b"worker" in words:
            os.kill(int(file.parent.name), signal.SIGKILL)
            killed.append(file.parent.name)


@pytest.mark.slow
def test_a_store_without_room_for_the_tables_says_so_and_keeps_nothing(
    hosts, monkeypatch, tmp_path
):
    monkeypatch.setattr(tables, "own_folder", lambda *_: str(tmp_path))
    host = replace(
        hosts["store"], transport=Within(("sh", "-c", 'ulimit -f 8; exec "$@"', "limited"))
    )
    with pytest.raises(HostError, match="the tables do not fit") as error:
        tables.bring(host, SMALL.factor)
    assert "MiB" in error.value.hint and list(tmp_path.iterdir()) == []


@pytest.mark.box
@pytest.mark.slow
@pytest.mark.when_changed(*OURS, "labkit/box/network/", "labkit/settings/egress.py")
def test_the_faster_path_wins_and_hits_explain_what_a_warm_cache_saves(box_of):
    found = {}
    with opened(box_of(study.topology)) as lab:
        for name in (
            "storage-transfer, slow network", "network-transfer, slow network",
            "storage-transfer, warm cache", "network-transfer, warm cache",
            "network-transfer, cold cache",
        ):  # fmt: skip
            condition = study.condition(name)
            (hosts,) = condition.pairs(lab, study.workload).values()
            with applied([*condition.settings], lab.hosts):
                load = replace(condition.load(study.workload), streams=1)
                found[name] = figures(SMALL, load.run(hosts))
    queries = {name: level["throughput"] for name, level in found.items()}
    assert (
        queries["storage-transfer, slow network"] > 1.3 * queries["network-transfer, slow network"]
    )
    assert queries["network-transfer, warm cache"] > queries["storage-transfer, warm cache"]
    warm, cold = found["network-transfer, warm cache"], found["network-transfer, cold cache"]
    saved = (cold["read from store"] - warm["read from store"]) * 8 / 100
    assert saved > 0.5
    assert 0.5 * saved < cold["elapsed"] - warm["elapsed"] < 2 * saved + 1
