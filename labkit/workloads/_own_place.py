"""Programs of ours on a host: a folder of its user's alone, and a Python that is not too old."""

from collections.abc import Iterable

from labkit.host import Host
from labkit.machine import own_place
from labkit.programs.packages import brings

PROGRAMS = ("python3",)

HAVE_PYTHON = "import sys; sys.exit(sys.version_info < (3, 9))"


def own_folder(host: Host, beginning: str = own_place.VOLATILE) -> str:
    """Make and check `BEGINNING-UID` on a host; a folder of somebody else is refused."""
    return host.check(*own_place.words(beginning)).strip()


def no_python(hosts: Iterable[Host]) -> str:
    """Reason why a host cannot run our programs in Python; empty if all can."""
    lacking = (host for host in hosts if not host.run("python3", "-c", HAVE_PYTHON).ok)
    host = next(lacking, None)
    return f"Python 3.9 or newer is missing on {host.name}: {brings('python3')}" if host else ""
