"""Remarks on what `labkit doctor` fails and a run bears: one machine for two, or a wrong way."""

from collections.abc import Iterator, Mapping

from labkit.results import Results

CLIENT = "client"


def remarks(results: Results) -> Iterator[str]:
    """Say again of the lab of these results what makes them doubtful; hosts of a box are known."""
    lab, runs = results.asked.get("lab", {}), results.finished()
    if lab.get("tier", "hosts") != "hosts" or not runs:
        return
    hosts, interfaces = runs[-1].facts.get("hosts", {}), lab.get("interfaces", {})
    network = _network(hosts.get(CLIENT, {}))
    for role, facts in hosts.items():
        if role != CLIENT and "" not in network and _network(facts) == network:
            yield f"{CLIENT} and {role} are one machine: traffic between them never left it"
    for role, interface in interfaces.items():
        names = [name for name in hosts.get(role, {}) if name.startswith("nic ")]
        if names and f"nic {interface}" not in names:
            yield f"{role} has no interface {interface}, so settings of it were left out"
    for role, address in lab.get("elsewhere", {}).items():
        fault = f"{role}: {interfaces.get(role)} does not have the address {address}"
        yield f"{fault}, so test traffic may have passed another interface"


def _network(facts: Mapping[str, str]) -> tuple[str, str]:
    return facts.get("boot", ""), facts.get("network", "")
