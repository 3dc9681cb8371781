"""The folder on a host for files of a workload: its user's alone, or nothing is put there."""

from labkit.host import Host
from labkit.machine import own_place


def own_folder(host: Host, beginning: str = own_place.VOLATILE) -> str:
    """Make and check `BEGINNING-UID` on a host; a folder of somebody else is refused."""
    return host.check(*own_place.words(beginning)).strip()
