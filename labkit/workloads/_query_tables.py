"""TPC-H-derived tables by column, made on this machine, and the answers of a single database.

They are no result of TPC-H and not comparable with any: the queries are labkit's own.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.util import find_spec
from pathlib import Path

from labkit.errors import HostError, NotInstalled
from labkit.host import Host
from labkit.machine import account
from labkit.machine.own_place import LASTING
from labkit.workloads import _query_node as node
from labkit.workloads._own_place import own_folder

PROGRAMS = ("tar", "tpchgen-cli")

MODULES = ("duckdb", "pyarrow")
INSTALLER = f"{Path(sys.executable).name} -m pip install duckdb pyarrow tpchgen-cli"
INSTALL = "python3 -m pip install duckdb pyarrow"
MAKE_SECONDS, UNPACK_SECONDS = 3_600, 600
MEBIBYTES = 75
"""MiB of columns for each unit of scale."""


def generator() -> str:
    """The path of tpchgen-cli on this machine; empty if it is not installed."""
    beside = Path(sys.executable).with_name("tpchgen-cli")
    return str(beside) if beside.is_file() else shutil.which("tpchgen-cli") or ""


def lacking() -> str:
    """The parts that this machine lacks to make the tables; empty if it lacks none."""
    missing = [name for name in MODULES if not find_spec(name)]
    missing += [] if generator() else ["tpchgen-cli"]
    return f"{', '.join(missing)} is missing here: {INSTALLER}" if missing else ""


def bring(store: Host, scale: float) -> str:
    """Put the tables on the store unless they are there; return their folder there."""
    folder = f"{own_folder(store, LASTING)}/tpch-{_mark(scale)}"
    if store.run("test", "-f", f"{folder}/manifest.json").ok:
        return folder
    content = made(scale)
    store.check("rm", "-rf", folder)
    store.check("mkdir", "-m", "755", folder)
    words = ("tar", "-x", "-f", "-", "-C", folder)
    result = store.run(*words, stdin=content, seconds=UNPACK_SECONDS)
    if not result.ok:
        store.run("rm", "-rf", folder)
        raise HostError(f"{store.name}: the tables do not fit into {folder}", said=result.stderr,
                        hint=f"scale {scale:g} takes {len(content) >> 20} MiB")  # fmt: skip
    return folder


def made(scale: float) -> bytes:
    """An archive of the columns and of a manifest; made once, and then found."""
    if reason := lacking():
        raise NotInstalled(reason)
    return account.kept(f"tpch/{_mark(scale)}.tar", lambda at: _make(at, scale)).read_bytes()


def _mark(scale: float) -> str:
    code = repr((node.QUERIES, node.READ, node.PARTS)).encode()
    return f"{scale:g}-{hashlib.sha256(code).hexdigest()[:12]}"


def _make(at: Path, scale: float) -> None:
    with tempfile.TemporaryDirectory(prefix="labkit-") as name:
        folder = Path(name)
        _generate(folder, scale)
        _by_column(folder)
        manifest = {"scale": scale, "answers": _answers(folder)}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        with tarfile.open(at, "w") as archive:
            # The manifest comes last: where it is, everything is.
            for path in [*sorted(folder.glob("*-*.parquet")), folder / "manifest.json"]:
                archive.add(path, path.name, filter=_of_nobody)


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname, entry.gname, entry.mode = "", "", 0o644
    return entry


def _generate(folder: Path, scale: float) -> None:
    words = [generator(), "parquet", "-q", "-s", f"{scale:g}", "-o", str(folder),
             "-T", ",".join(node.READ)]  # fmt: skip
    ran = subprocess.run(words, capture_output=True, text=True, timeout=MAKE_SECONDS)
    if ran.returncode:
        raise HostError("tpchgen-cli could not make the tables", said=ran.stderr)


# A part has the same orders in each table.
def _by_column(folder: Path) -> None:
    import duckdb

    with duckdb.connect() as database:
        for table, columns in node.READ.items():
            source = f"'{folder}/{table}.parquet'"
            key = columns[0]
            last = database.sql(f"select max({key}) from {source}").fetchall()[0][0]
            for part in range(node.PARTS):
                low, high = (last * n // node.PARTS for n in (part, part + 1))
                for column in columns:
                    file = folder / node.column(table, part, column)
                    database.execute(
                        f"copy (select {column} from {source} where {key} > {low} "
                        f"and {key} <= {high}) to '{file}' (compression zstd)"
                    )


def _answers(folder: Path) -> dict[str, str]:
    import duckdb

    with duckdb.connect() as database:
        for table in node.READ:
            database.execute(f"create view {table} as from '{folder}/{table}.parquet'")
        return {name: node.mark(database.sql(f"with parts as ({part}) {query}").fetchall())
                for name, (_, part, query) in node.QUERIES.items()}  # fmt: skip
