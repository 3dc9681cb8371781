"""The packages that only a campaign on a cluster needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from labkit.errors import NotInstalled

COMMAND = "in a checkout of labkit: pip install -e '.[cluster]'"
"""The package index has another project of this name."""


@contextmanager
def needing_extra() -> Iterator[None]:
    """Say which command brings the package, if an import fails meanwhile."""
    try:
        yield
    except ImportError as missing:
        what = f"a campaign on a cluster needs {missing.name or 'a package'}, missing here"
        raise NotInstalled(what, said=str(missing), hint=COMMAND) from None
