"""The scheduler of a Dask cluster, and what its workers offer: one resource for each lab.

Any client of a scheduler can have its workers run any program. So all processes of a cluster that
is made here prove themselves by a TLS pair, which is made for it alone.
"""

import functools
import logging
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from labkit import __version__
from labkit.errors import BadInput, NoScheduler, NotInstalled, NoWorker, UnlikeVersions
from labkit.machine import own_place
from labkit.running.open_lab import is_stored

COMMAND = "in a checkout of labkit: pip install -e '.[cluster]'"
"""The package index has another project of this name."""
CONNECT_SECONDS, LOST_SECONDS = 10.0, 600.0
"""For so long a scheduler is looked for, and one that is gone, by Dask itself."""
HOST = "127.0.0.1"
TASK = "labkit.campaign.cluster"
TEMPORARY = "labkit-dask-"
# Each has a web server beside its port, for all networks unless it is told otherwise.
WEB = {"dashboard": False, "dashboard_address": f"{HOST}:0"}
NO_PAGES: Mapping[str, Any] = {
    f"distributed.{role}.http.routes": [] for role in ("scheduler", "worker")
}
PARTS = ("python", "dask", "distributed", "cloudpickle", "msgpack", "labkit")
"""Software that must be of one version on all machines."""
SCHEDULER = "the scheduler"


@contextmanager
def needing_extra() -> Iterator[None]:
    """Say which command brings the package, if an import fails meanwhile."""
    try:
        yield
    except ImportError as error:
        problem = f"a campaign on a cluster needs {error.name or 'a package'}, missing here"
        raise NotInstalled(problem, said=str(error), hint=COMMAND) from None


@contextmanager
def cluster_here(workers: int, labs: Collection[str]) -> Iterator[tuple[str, Any]]:
    """A scheduler with this number of workers, which share the labs: its address and TLS pair."""
    with needing_extra():
        import dask
        from distributed import Nanny, Scheduler, Security, SpecCluster

        pair = Security.temporary()  # type: ignore[no-untyped-call]
    names = sorted({name for lab in labs if (name := resource(lab))})
    with own_place.temporary(TEMPORARY) as place, dask.config.set(NO_PAGES):
        common = {"nthreads": 1, "memory_limit": 0, "host": HOST, "local_directory": str(place),
                  "preload": [TASK], "security": pair,
                  "silence_logs": logging.CRITICAL, **WEB}  # fmt: skip
        offers = [dict.fromkeys(names[number::workers], 1) for number in range(workers)]
        spec = {
            number: {"cls": Nanny, "options": {**common, "resources": offer}}
            for number, offer in enumerate(offers)
        }
        options = {"host": HOST, "protocol": "tls", "port": 0, "security": pair, **WEB}
        scheduler = {"cls": Scheduler, "options": options}
        kind: Any = SpecCluster
        with kind(spec, scheduler, security=pair, silence_logs=logging.CRITICAL) as cluster:
            yield cluster.scheduler_address, pair


def connected(address: str, pair: Any = None) -> Any:
    """A client of the scheduler at an address; the pair is that of a cluster made here."""
    with needing_extra():
        import distributed
    # What it has to say of lost connections is said in words of ours.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            how = {"set_as_default": False, "security": pair}
            client: Any = functools.partial(distributed.Client, address, **how)
            let_go(client(timeout=CONNECT_SECONDS))  # one that never was is not waited for
            return client(timeout=LOST_SECONDS)
    except (OSError, ValueError, ImportError) as error:
        hint = "`dask scheduler` prints its address, such as tcp://10.0.0.1:8786"
        problem = f"no scheduler answers at {address}"
        raise NoScheduler(problem, said=str(error), hint=hint) from None


def let_go(client: Any) -> None:
    """Close a client, also where its scheduler is gone."""
    with suppress(OSError, TimeoutError, RuntimeError):
        client.close(timeout=2)


def versions(client: Any) -> Mapping[str, Any]:
    """The reports of a cluster's processes about their packages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dict(client.get_versions(packages=["labkit"]))


def insist_alike(parties: Mapping[str, Any]) -> None:
    """Refuse a cluster with other versions, which would fail in stranger ways."""
    here = {**_versions(parties["client"]), "labkit": __version__}
    for name, party in {SCHEDULER: parties["scheduler"], **parties["workers"]}.items():
        for part, version in _versions(party).items():
            is_needed = part != "labkit" or name != SCHEDULER
            if is_needed and version != here[part]:
                remedy = COMMAND if part == "labkit" else f"pip install '{part}=={here[part]}'"
                problem = f"{part} is {version} on {name}, {here[part]} here"
                raise UnlikeVersions(problem, hint=f"the same everywhere: {remedy}")


# Of Python, what comes after the second point is no matter.
def _versions(party: Mapping[str, Any] | None) -> dict[str, str]:
    packages = (party or {}).get("packages", {})
    versions = {part: str(packages.get(part) or "missing") for part in PARTS}
    return {**versions, "python": ".".join(versions["python"].split(".")[:2])}


def resource(lab: str) -> str:
    """The resource that stands for a lab; results that are only read need none."""
    if is_stored(lab):
        return ""
    return "box" if lab == "box" else f"lab-{Path(lab).stem}"


def offered(client: Any) -> Mapping[str, float]:
    """The amount of each resource that all workers offer together."""
    offers: Counter[str] = Counter()
    for worker in client.scheduler_info()["workers"].values():
        offers.update(worker["resources"])
    return offers


def threads(client: Any) -> int:
    """The number of points that can be at work at once."""
    return sum(worker["nthreads"] for worker in client.scheduler_info()["workers"].values())


def insist_offered(client: Any, labs: Collection[str], address: str) -> None:
    """Insist that each lab has a worker, and none has two, which might disturb each other."""
    offers, owners = offered(client), dict[str, str]()
    for lab in sorted(lab for lab in labs if resource(lab)):
        name = resource(lab)
        # Dask knows a lab by the name of its file alone.
        if owners.setdefault(name, lab) != lab:
            problem = f"{owners[name]} and {lab} would both be {name} on the cluster"
            raise BadInput(problem, hint="give one of the files another name")
    for name in owners:
        if not offers.get(name):
            names = ", ".join(sorted(offers)) or "nothing"
            hint = f'dask worker {address} --nthreads 1 --resources "{name}=1"'
            raise NoWorker(f"no worker offers {name}; offered: {names}", hint=hint)
        if name != "box" and offers[name] > 1:
            problem = f"workers offer {name} {offers[name]:g} times, and a lab is there once"
            raise NoWorker(problem, hint=f'let one worker offer it: --resources "{name}=1"')
    if not threads(client):
        hint = f"dask worker {address} --nthreads 1"
        raise NoWorker(f"the scheduler at {address} has no worker", hint=hint)
