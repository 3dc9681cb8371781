"""Programs of ours on a host: a folder of its user's alone, and a Python that is not too old."""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from labkit.host import Host
from labkit.machine import own_place
from labkit.programs.packages import brings

PROGRAMS = ("python3",)

HAVE_PYTHON = "import sys; sys.exit(sys.version_info < (3, 9))"


def own_folder(host: Host, beginning: str = own_place.VOLATILE) -> str:
    """Make and check `BEGINNING-UID` on a host; a folder of somebody else is refused."""
    return host.check(*own_place.words(beginning)).strip()


@contextmanager
def own_scratch(host: Host, name: str, mode: str = "700") -> Iterator[str]:
    """A new folder in that one, gone with the block."""
    folder = f"{own_folder(host)}/{name}-{secrets.token_hex(4)}"
    host.check("mkdir", "-m", mode, folder)
    try:
        yield folder
    finally:
        host.run("rm", "-rf", folder)


@contextmanager
def own_file(host: Host, name: str, content: bytes, mode: int = 0o600) -> Iterator[str]:
    """A new file in that folder, gone with the block."""
    path = f"{own_folder(host)}/{name}-{secrets.token_hex(4)}"
    host.put(content, path, mode)
    try:
        yield path
    finally:
        host.run("rm", "-f", path)


def no_python(hosts: Iterable[Host]) -> str:
    """Reason why a host cannot run our programs in Python; empty if all can."""
    lacking = (host for host in hosts if not host.run("python3", "-c", HAVE_PYTHON).ok)
    host = next(lacking, None)
    return f"Python 3.9 or newer is missing on {host.name}: {brings('python3')}" if host else ""
