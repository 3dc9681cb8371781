"""A node of a distributed database, by itself on its host.

`worker ADDRESS PORT SECRET` computes parts; SECRET is a file. `lead` reads what to ask, and asks.

It needs a Python with duckdb and pyarrow there, and nothing else of labkit. Tables are stored by
column and shared out in parts; those of a part belong together, so that no join leaves a node.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import sys
import threading
import time
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

PARTS = 16
REVENUE = "sum(l_extendedprice * (1 - l_discount))"
Query = tuple[dict[str, tuple[str, ...]], str, str]
"""The columns read of each table, the part that a node computes, and the answer from all parts."""
# Sums are of decimals: they are the same, to the last digit, however rows are shared out.
QUERIES: dict[str, Query] = {
    "customers": (
        {"lineitem": ("l_orderkey", "l_extendedprice", "l_discount"),
         "orders": ("o_orderkey", "o_custkey")},
        f"select o_custkey as key, {REVENUE} as spent from lineitem join orders "
        "on l_orderkey = o_orderkey group by key",
        "select key, sum(spent) from parts group by key order by 2 desc, 1 limit 20",
    ),
    "goods": (
        {"lineitem": ("l_partkey", "l_quantity", "l_extendedprice", "l_discount")},
        f"select l_partkey as key, {REVENUE} as spent, sum(l_quantity) as pieces "
        "from lineitem group by key",
        "select key, sum(spent), sum(pieces) from parts group by key order by 2 desc, 1 limit 20",
    ),
    "large orders": (
        {"lineitem": ("l_orderkey", "l_quantity")},
        "select l_orderkey as key, sum(l_quantity) as pieces from lineitem group by key",
        "select pieces, count(*) from parts group by pieces order by pieces desc limit 20",
    ),
    "returned": (
        {"lineitem": ("l_returnflag", "l_shipdate", "l_quantity", "l_extendedprice")},
        "select l_returnflag as flag, year(l_shipdate) as year, sum(l_quantity) as pieces, "
        "sum(l_extendedprice) as price from lineitem group by all",
        "select flag, year, sum(pieces), sum(price) from parts group by flag, year order by 1, 2",
    ),
}  # fmt: skip
READ = {"lineitem": ("l_orderkey", "l_partkey", "l_quantity", "l_extendedprice", "l_discount",
                     "l_returnflag", "l_shipdate"),
        "orders": ("o_orderkey", "o_custkey")}  # fmt: skip
"""The stored columns."""
PATIENCE_SECONDS = 120.0
COUNTERS = ("hit", "missed", "sent")
"""Bytes that a query had from caches and from the store, and that its parts took."""


def column(table: str, part: int, name: str) -> str:
    """The name of the file of a column."""
    return f"{table}-{part:02d}-{name}.parquet"


def mark(rows: Any) -> str:
    """A short mark of an answer: another answer has another one."""
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


def _ask(url: str, method: str = "GET", body: bytes | None = None) -> tuple[bytes, str]:
    request = urllib.request.Request(url, data=body, method=method)
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as reply:
        return reply.read(), reply.headers.get("X-Cache", "")


def _database() -> Any:
    import duckdb

    return duckdb.connect(config={"threads": 1})


# Who does not know the server's secret is answered before anything of his is read.
class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def parse_request(self) -> bool:
        """Refuse a path that does not begin with the secret."""
        if not super().parse_request():
            return False
        secret, _, self.rest = self.path[1:].partition("/")
        if hmac.compare_digest(secret, self.server.secret):
            return True
        self.close_connection = True
        self.send_error(403)
        return False

    def log_message(self, *_: Any) -> None:
        """Say nothing: what is printed is in the way of last words."""

    def do_POST(self) -> None:
        """Compute this node's part of a query, and hand it over."""
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            reply, code = json.dumps(_part(order)), 200
        except Exception as error:
            reply, code = f"{type(error).__name__}: {error}", 500
        self._reply(code, reply.encode())

    def do_PUT(self) -> None:
        """Keep a part until its query takes it."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.parts[self.rest] = body
        self._reply(201, b"")

    def _reply(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: str, port: int, secret: str) -> None:
        super().__init__((address, port), _Answer)
        self.secret = secret
        self.parts: dict[str, bytes] = {}


# --- a worker ----------------------------------------------------------------------------------


def _part(order: dict[str, Any]) -> dict[str, int]:
    import pyarrow as pa

    reads, part, _ = QUERIES[order["query"]]
    bytes_read = {"hit": 0, "missed": 0}
    with _database() as database:
        for table, columns in reads.items():
            database.register(table, _table(order, table, columns, bytes_read))
        rows = database.sql(part).to_arrow_table()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    body = sink.getvalue().to_pybytes()
    _ask(order["to"], "PUT", body)
    return {**bytes_read, "sent": len(body)}


def _table(
    order: dict[str, Any], table: str, columns: tuple[str, ...], bytes_read: dict[str, int]
) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def column_of(name: str) -> Any:
        pieces = []
        for part in order["parts"]:
            body, cache = _ask(f"{order['data']}/{column(table, part, name)}")
            bytes_read["hit" if cache == "HIT" else "missed"] += len(body)
            pieces.append(pq.read_table(pa.BufferReader(body)).column(0))
        return pa.chunked_array([chunk for piece in pieces for chunk in piece.chunks])

    return pa.table({name: column_of(name) for name in columns})


# --- the leader --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Asking:
    """The leader's streams: what they were given, the right answers, and the parts that arrive."""

    given: dict[str, Any]
    answers: dict[str, str]
    arrived: dict[str, bytes]

    def together(self, counts: bool) -> list[dict[str, Any]]:
        """Ask with all streams at once; a line for each query."""
        count = self.given["streams"]
        with ThreadPoolExecutor(count) as streams:
            lines = streams.map(lambda number: self._stream(number, counts), range(count))
            return [line for of_stream in lines for line in of_stream]

    # Each stream asks all queries, in an order of its own.
    def _stream(self, number: int, counts: bool) -> list[dict[str, Any]]:
        names = [*QUERIES]
        random.Random(f"{self.given['seed']} {number} {counts}").shuffle(names)
        return [self._query(number, name, counts) for name in names]

    def _query(self, stream: int, name: str, is_measurement: bool) -> dict[str, Any]:
        start, key = time.monotonic(), uuid.uuid4().hex
        nodes = len(self.given["nodes"])
        with ThreadPoolExecutor(nodes) as asking:
            parts = [*asking.map(lambda n: self._node(name, key, n, is_measurement), range(nodes))]
        rows = _merge(QUERIES[name][2], [body for body, _ in parts])
        seconds = time.monotonic() - start
        if mark(rows) != self.answers[name]:
            sys.exit(f"the answer of {name} is another one than that of a single database")
        sums = {field: sum(counts[field] for _, counts in parts) for field in COUNTERS}
        return {"stream": stream, "query": name, "seconds": seconds, **sums}

    # The leader's own part stays on its node. What goes before the measured pass warms the engine,
    # and the caches too or none of them: it reads past those that are to stay cold.
    def _node(
        self, query: str, key: str, n: int, is_measurement: bool
    ) -> tuple[bytes, dict[str, int]]:
        values, name = self.given, f"{key}-{n}"
        share = [*range(n, PARTS, len(values["nodes"]))]
        through_store = values["way"] == "storage" and n > 0
        place = f"{values['store']}/shared" if through_store else values["exchange"]
        read = values["caches"][n] if is_measurement or values["warm"] else values["store"]
        to = f"{place}/{name}"
        order = {"query": query, "parts": share, "data": f"{read}/data", "to": to}
        try:
            counts = json.loads(_ask(values["nodes"][n], "POST", json.dumps(order).encode())[0])
            if not through_store:
                return self.arrived.pop(name), counts
            body, _ = _ask(to)
            _ask(to, "DELETE")
            return body, counts
        except HTTPError as error:
            failure, reason = "could not compute", error.read().decode()
        except (OSError, HTTPException) as error:
            failure, reason = "was lost in the middle of", str(error)
        sys.exit(f"{values['names'][n]} {failure} the query {query}: {reason}")


def _lead(order: dict[str, Any]) -> None:
    manifest = json.loads(_ask(f"{order['store']}/data/manifest.json")[0])
    if manifest["scale"] != order["scale"]:
        sys.exit(f"the data is of scale {manifest['scale']:g}, not of {order['scale']:g}")
    exchange = _exchange(order["address"], order["port"], order["secret"])
    threading.Thread(target=exchange.serve_forever, daemon=True).start()
    asking = _Asking(order, manifest["answers"], exchange.parts)
    asking.together(False)
    start = time.monotonic()
    lines = asking.together(True)
    seconds = time.monotonic() - start
    for line in (*lines, {"elapsed": seconds, "way": order["way"]}):
        print(json.dumps(line))


def _exchange(address: str, port: int, secret: str) -> _Server:
    try:
        return _Server(address, port, secret)
    except OSError as error:
        sys.exit(f"TCP port {port} of {address}, for partial answers: {error.strerror}")


def _merge(statement: str, bodies: list[bytes]) -> Any:
    import pyarrow as pa

    tables = [pa.ipc.open_stream(body).read_all() for body in bodies]
    with _database() as database:
        database.register("parts", pa.concat_tables(tables))
        return database.sql(statement).fetchall()


def _main(verb: str, *words: str) -> None:
    if verb == "worker":
        address, port, secret = words
        _Server(address, int(port), Path(secret).read_text()).serve_forever()
    _lead(json.load(sys.stdin))


if __name__ == "__main__":
    _main(*sys.argv[1:])
