"""A database of a shop, on a host, until we leave; and the driver that asks it, on another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from labkit import shop
from labkit.host import Host
from labkit.shop import kit
from labkit.workloads._brought import bring, could_bring
from labkit.workloads._server import serving

ENGINES = {"postgresql": "postgresql", "mariadb": "mariadb-server"}
"""The packages of Debian that bring them."""
SCRIPTS = Path(shop.__file__).parent
KEPT = "/var/tmp/labkit-shop"
"""What was filled stays here, one shop for each engine and number, so that it is filled once."""
READY_SECONDS = 90
FIND = """\
case $1 in
    postgresql) ls /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb || command -v initdb ;;
    mariadb) PATH=$PATH:/usr/sbin:/usr/libexec; command -v mariadbd ;;
esac > /dev/null 2>&1"""
PYTHON = "import sys; sys.exit(sys.version_info < (3, 9))"


@dataclass(frozen=True)
class Served:
    """Where the driver finds a shop, and the file with its password there."""

    address: str
    secret: str


@contextmanager
def serving_shop(
    hosts: Mapping[str, Host], engine: str, number: int, durable: bool, buffers: int,
    connections: int,
) -> Iterator[Served]:  # fmt: skip
    """Serve one more database on `server`, and bring `client` the driver and the password."""
    server, client = hosts["server"], hosts["client"]
    folder = f"{KEPT}/{engine}-{number}"
    script = f"{KEPT}/serve_{engine}.sh"
    client.put(kit.packed(), f"/tmp/{kit.name()}", 0o644)
    if not server.run("sh", "-c", FIND, "find", engine).ok:
        bring(engine, server)
    server.check("mkdir", "-p", KEPT)
    server.put(SCRIPTS / f"serve_{engine}.sh", script, 0o644)

    def words(port: int) -> tuple[str, ...]:
        return ("sh", script, folder, server.address, str(port),
                "durable" if durable else "fast", str(buffers), str(connections))  # fmt: skip

    with serving(server, words, seconds=READY_SECONDS) as port:
        secret = f"/tmp/labkit-shop-{server.name}-{number}.secret"
        client.put(server.get(f"{folder}/secret"), secret, 0o600)
        try:
            yield Served(f"shop@{server.address}:{port}", secret)
        finally:
            client.run("rm", "-f", secret)


def absent(engine: str, hosts: Mapping[str, Host]) -> str:
    """What one of these hosts lacks for it, and how to get it; empty when nothing is."""
    client, server = hosts["client"], hosts["server"]
    if not client.run("python3", "-c", PYTHON).ok:
        return (
            f"Python 3.9 or newer is missing on {client.name}, to get it: apt-get install python3"
        )
    if not server.run("sh", "-c", FIND, "find", engine).ok and not could_bring(engine, server):
        how = f"apt-get install {ENGINES[engine]}"
        return f"{engine} is missing on {server.name}, to get it: {how}"
    return ""
