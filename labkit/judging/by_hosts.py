"""Claims that the hosts decide by what they are, so that no measurement of theirs can."""

from collections.abc import Mapping

from labkit import kernels
from labkit.condition import Condition
from labkit.machine.cpus import cpus_of
from labkit.results import Results
from labkit.study import Study
from labkit.workload import Workload

SHARED_CPUS = "the client shares CPUs with the guests of the server"
APART = "it takes three CPUs, or a machine for the client"


def is_emulated(results: Results) -> bool:
    """Whether they are of a lab in a box, where other things stand for hardware."""
    return bool(results.asked.get("lab", {}).get("tier", "hosts") != "hosts")


def is_crowded(results: Results) -> bool:
    """Whether they are of a box whose server has no more CPUs than guests."""
    hosts = results.asked.get("lab", {}).get("hosts", {})
    cpus = str(hosts.get("server", {}).get("cpus", ""))
    guests = [role for role in hosts if role.startswith("guest")]
    return is_emulated(results) and not (cpus.isdecimal() and int(cpus) > len(guests))


def decided(study: Study, results: Results) -> dict[str, str]:
    """Name the claims that these hosts decide by what they are: other kernels, or few CPUs."""
    kernels_of, lab = results.asked.get("kernels", {}), results.asked.get("lab", {})
    names_of = {item.id: [c.what.names for c in item.comparisons()] for item in study.claims}
    reasons = {claim: kernels.decided(names, kernels_of) for claim, names in names_of.items()}
    if kernels.emulates(lab.get("accelerator", "")):
        reasons |= study.emulated
    reasons |= _few_cpus(study, results) | _shared_cpus(study, results)
    # A substitute of an emulated lab may decide a claim whose every figure is measured there; one
    # of every lab, where labkit has nothing but a substitute.
    whys = {**(study.untold if is_emulated(results) else {}), **study.unmeasured}
    reasons |= {claim: whys[claim] for claim in names_of if claim in whys}
    return {claim: reason for claim, reason in reasons.items() if reason}


def _few_cpus(study: Study, results: Results) -> dict[str, str]:
    hosts = results.asked.get("lab", {}).get("hosts", {}) if study.least_cpus else {}
    if not str(hosts.get("server", {}).get("cpus", "")).isdecimal():
        return {}
    cpus = min(_server_cpus(study.workload, condition, hosts) for condition in study.conditions)
    return {
        claim: f"it takes {need} CPUs for the servers, and here they have {cpus}"
        for claim, need in study.least_cpus.items()
        if cpus < need
    }


# Results that do not say which CPUs a host of a box had are older than a client set aside.
def _shared_cpus(study: Study, results: Results) -> dict[str, str]:
    if not is_emulated(results):
        return {}
    lab = results.asked["lab"]
    cpus_of_roles = [
        lab.get("hosts", {}).get(role, {}).get("allowed", "0") for role in ("client", "server")
    ]
    client, server = ({*cpus_of(cpus)} for cpus in cpus_of_roles)
    claims = study.apart if client & server else {}
    return {claim: f"{SHARED_CPUS}, {reason}: {APART}" for claim, reason in claims.items()}


# Containers share their host's CPUs, and so do guests; guests may have fewer.
def _server_cpus(
    load: Workload, condition: Condition, hosts: Mapping[str, Mapping[str, str]]
) -> int:
    roles = [role for role in load.roles if role.startswith("server")]
    players = {player for role in roles for player in condition.players(role)}
    counts = [str(hosts.get(player, {}).get("cpus", "")) for player in players]
    total = sum(int(count) for count in counts if count.isdecimal())
    return min(int(hosts["server"]["cpus"]), total or int(hosts["server"]["cpus"]))
