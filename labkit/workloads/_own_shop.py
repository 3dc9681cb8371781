"""A database of the reader's own that a shop is in: asked as it is, neither started nor ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from labkit.errors import BadInput
from labkit.host import Host
from labkit.workloads._database import ENGINES, KEPT, Served, driver_on
from labkit.workloads._own_place import own_folder

NONE = """\
{0} names no SQL Server of yours, and labkit starts none: in the lab.toml, [hosts.{0}] needs \
database = "USER@HOST:PORT" and database_password = "FILE\""""


def asked_only(engine: str) -> bool:
    """Whether labkit serves no database of this engine."""
    return engine not in ENGINES


def unnamed(hosts: Mapping[str, Host], instances: int, nodes: bool) -> str:
    """Reason why a shop cannot be in a database of the reader's own; empty if it can."""
    server = hosts["server"]
    if not server.database:
        return NONE.format(server.name)
    if instances > 1:
        return f"it takes {instances} databases on {server.name}, which names one SQL Server"
    return f"labkit does not start SQL Server on {server.name}, so it pins none" if nodes else ""


@contextmanager
def own_shop(hosts: Mapping[str, Host], number: int, pages: bool) -> Iterator[Served]:
    """Bring the driver and the password to who asks: the client, and the server of its pages."""
    server, client = hosts["server"], hosts["client"]
    if not server.database:
        raise BadInput(NONE.format(server.name))
    word = server.database.word()
    own, program = driver_on(client)
    secret, folder = f"{own}/shop-{server.name}-{number}.secret", ""
    with ExitStack() as brought:
        brought.callback(client.run, "rm", "-f", secret)
        client.put(word, secret, 0o600)
        if pages:
            folder = f"{own_folder(server, KEPT)}/sqlserver-{number}"
            server.check("mkdir", "-p", "-m", "711", folder)
            brought.callback(server.run, "rm", "-rf", folder)
            server.put(word, f"{folder}/secret", 0o600)
        yield Served(server.database.address, secret, program, number, folder)
