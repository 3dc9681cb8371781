"""What a workload brings beside packages: installed once on this machine, or a reason to skip."""

import pytest

from labkit.errors import LabkitError
from labkit.host import Host
from labkit.transports.local import Local

HERE = Host("here", "127.0.0.1", Local("here"))


def bring(*loads):
    """Bring it; hosts of a box have it then, too."""
    for load in loads:
        try:
            if not load.there(HERE):
                load.install(HERE)
        except LabkitError as lacking:
            pytest.skip(f"no {load.brings.partition(' (')[0]}: {lacking.what}")
