"""A database of a shop, on a host, until we leave; and the driver that asks it, on another one."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from labkit.errors import absence
from labkit.host import Host
from labkit.job.of_runs import end_left
from labkit.machine.own_place import LASTING
from labkit.machine.scripts import beside, by_nginx
from labkit.programs.packages import brings
from labkit.shop import kit
from labkit.workloads import _brought
from labkit.workloads._brought import ENGINE, bring, could_bring
from labkit.workloads._lasting import results_of
from labkit.workloads._own_place import no_python, own_folder
from labkit.workloads._server import serving_on

PROGRAMS = ("/usr/lib/postgresql/*/bin/postgres", "initdb", "nginx", "python3")

KEPT = LASTING
"""Beginning of the folder of filled shops: one for each number, each filled once."""
READY_SECONDS = 300
FIND = beside(__file__, "_database_find.sh")
APPLICATION = 500
"""The application listens this many ports above nginx, below those that Linux gives to clients."""
NODES = "ls -d /sys/devices/system/node/node*"


@dataclass(frozen=True)
class Served:
    """The address where the driver finds a shop, and the file with its password there."""

    address: str
    secret: str
    program: str
    """The driver, on the client."""
    number: int
    folder: str
    """The folder where its server keeps it."""
    pages: str = ""
    """The address of its web pages, if it has any."""


@dataclass(frozen=True)
class WantedShop:
    """A database to serve, its stock, and the way to serve it."""

    size: str
    seed: int
    nodes: bool
    durable: bool
    buffers: int
    connections: int
    place: str = ""
    """The beginning of the folder's name on the server; empty for the usual one."""


@contextmanager
def serving_shop(
    hosts: Mapping[str, Host], shop: WantedShop, number: int, lasts: float
) -> Iterator[Served]:
    """Serve one more database on `server`, and bring `client` the driver and the password.

    Within a run that lasts it is a job, of at most `lasts` seconds.
    """
    server, client = hosts["server"], hosts["client"]
    for host in (server, client):  # a database that a killed run left still has the files
        end_left(host, results_of(host))
    place = own_folder(client)
    program = f"{place}/{kit.name()}"
    client.put(kit.packed(), program, 0o644)
    folder, script = _prepare(server, shop, number)

    # Of several servers, `container` is the first, and `container2` the second.
    turn = int(re.sub(r"\D", "", server.name) or 1) - 1 + number

    def words(port: int) -> tuple[str, ...]:
        return ("sh", script, folder, server.address, str(port),
                "durable" if shop.durable else "fast", str(shop.buffers), str(shop.connections),
                str(turn) if shop.nodes else "")  # fmt: skip

    with serving_on(server, client, words, lasts, seconds=READY_SECONDS) as port:
        secret = f"{place}/shop-{server.name}-{port}.secret"
        client.put(server.get(f"{folder}/secret"), secret, 0o600)
        try:
            yield Served(f"shop@{server.address}:{port}", secret, program, number, folder)
        finally:
            client.run("rm", "-f", secret)


# Its folder and what serves it. One that cannot be filled where it is served in good time is filled
# here; where it is already, all else is there as well.
def _prepare(server: Host, shop: WantedShop, number: int) -> tuple[str, str]:
    portable = could_bring(ENGINE, server)
    usual = _brought.place(server, KEPT) if portable else KEPT
    place = own_folder(server, shop.place or usual)
    folder, script = f"{place}/{ENGINE}-{number}", f"{place}/{kit.SERVE_DATABASE.name}"
    of = (server, folder, shop.size, shop.seed)
    if portable and _brought.there(*of):
        return folder, script
    if not server.run("sh", "-c", FIND, "find", ENGINE).ok:
        bring(ENGINE, server)
    server.put(kit.SERVE_DATABASE, script, 0o644)
    if portable:
        _brought.bring_shop(*of)
    return folder, script


@contextmanager
def serving_pages(
    hosts: Mapping[str, Host], shop: Served, users: int, lasts: float,
    application: str = kit.SHOP,
) -> Iterator[Served]:  # fmt: skip
    """Serve the pages of a shop on `server`: nginx, and an application with its connections."""
    server, client = hosts["server"], hosts["client"]
    place = shop.folder.rpartition("/")[0]
    program, script = f"{place}/{kit.name(application)}", f"{place}/serve_web.sh"
    server.put(kit.packed(application), program, 0o644)
    server.put(by_nginx(kit.__file__, "serve_web.sh").encode(), script, 0o644)

    def words(port: int) -> tuple[str, ...]:
        return ("sh", script, f"{place}/web-{shop.number}", server.address, str(port),
                str(port + APPLICATION), str(users + 2), program, shop.address,
                f"{shop.folder}/secret")  # fmt: skip

    with serving_on(server, client, words, lasts, seconds=READY_SECONDS) as port:
        yield replace(shop, pages=f"{server.address}:{port}")


def one_node(hosts: Mapping[str, Host]) -> str:
    """Reason why nothing can be pinned to a NUMA node of the server; empty if it has several."""
    server = hosts["server"]
    nodes = len(server.run("sh", "-c", NODES).stdout.split())
    lacks = f"{server.name} has one NUMA node, so that there is nothing to pin to"
    return "" if nodes > 1 else lacks


def absent(way: str, hosts: Mapping[str, Host], database: bool = True) -> str:
    """The program missing on one of these hosts, and how to get it; empty if none is missing."""
    client, server = hosts["client"], hosts["server"]
    if missing := no_python([client, server] if way == "web" else [client]):
        return missing
    if way == "web" and not server.run("sh", "-c", FIND, "find", "nginx").ok:
        return absence("nginx", server.name, brings("nginx"))
    if not database or server.run("sh", "-c", FIND, "find", ENGINE).ok:
        return ""
    lacks = absence(ENGINE, server.name, brings(PROGRAMS[0]))
    return "" if could_bring(ENGINE, server) else lacks
