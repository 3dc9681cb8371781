"""Both sides of a measurement: versions of labkit, and the facts of a host."""

import functools
import platform
import subprocess
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from labkit import __version__
from labkit.changes.plan import AT_ONCE
from labkit.host import Host
from labkit.machine.places import HOME
from labkit.machine.scripts import beside
from labkit.machine.stopping import together

# One line a fact; every line is there on any Linux, and whatever is missing there prints nothing.
# The shell reads what it can itself: a guest without hardware support starts programs slowly.
READ = beside(__file__, "facts_read.sh")
# Of the kernel's command line only what changes measurements: the rest may be nobody's business.
OTHERS_SCRIPT = beside(__file__, "facts_others.sh")
COMMAND = READ + OTHERS_SCRIPT


def of_host(host: Host, programs: Collection[str] = ()) -> dict[str, str]:
    """The facts of a host now, and how far its clock is from ours (`clock_offset`, in seconds).

    Of those `programs` that are there also the versions: each is started for that. `reached_at` is
    the address that answered: where a name leads may change between two runs.
    """
    start = datetime.now(UTC).timestamp()
    facts = parse(host.check("sh", "-c", COMMAND, "facts", *programs))
    if at := host.transport.reached_at:
        facts["reached_at"] = at
    clock, middle = facts.pop("now", ""), (start + datetime.now(UTC).timestamp()) / 2
    if clock.replace(".", "", 1).isdigit():
        error = datetime.now(UTC).timestamp() - middle
        facts["clock_offset"] = f"{float(clock) - middle:+.3f} within {error:.3f}"
    return facts


def parse(text: str) -> dict[str, str]:
    """The facts that `COMMAND` printed; what a host does not have is left out."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name: value.strip() for name, _, value in pairs if value.strip()}


def of_run(
    hosts: Mapping[str, Host],
    links: Mapping[str, Mapping[str, str]] | None = None,
    programs: Collection[str] = (),
) -> dict[str, Any]:
    """Facts that a run keeps: our versions, those of each host by role, and of each shaped link."""
    of_each = together(lambda host: of_host(host, programs), hosts.values(), AT_ONCE)
    facts = {"versions": versions(), "hosts": dict(zip(hosts, of_each, strict=True))}
    return facts | ({"links": dict(links)} if links else {})


@functools.cache
def versions() -> Mapping[str, str]:
    """labkit with its commit, marked when files differ from it, and what computes beside it."""
    own_version = f"{__version__}{_commit()}"
    return {"labkit": own_version, "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "scipy", "paramiko")}}  # fmt: skip


def _commit() -> str:
    # An installed package may lie in a checkout of something else.
    if not (HOME / ".git").exists():
        return ""
    words = ("git", "-C", str(HOME), "describe", "--always", "--dirty", "--exclude", "*")
    try:
        process = subprocess.run(words, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return f"+{process.stdout.strip()}"
