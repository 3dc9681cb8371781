"""Remarks on what `labkit doctor` fails and a run bears: one machine for two, or a wrong way."""

from collections.abc import Iterator, Mapping

from labkit.results import Results

CLIENT = "client"


def remarks(results: Results) -> list[str]:
    """Say again of the lab of these results what makes them doubtful; hosts of a box are known."""
    lab = results.asked.get("lab", {})
    runs = results.finished()
    if lab.get("tier", "hosts") != "hosts" or not runs:
        return []
    hosts = runs[-1].facts.get("hosts", {})
    interfaces, addresses = lab.get("interfaces", {}), lab.get("elsewhere", {})
    return [
        *_one_machine(hosts), *_no_interface(hosts, interfaces),
        *_describe(addresses, interfaces),
    ]  # fmt: skip


def _one_machine(hosts: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    network = _network(hosts.get(CLIENT, {}))
    for role, facts in hosts.items():
        if role != CLIENT and "" not in network and _network(facts) == network:
            yield f"{CLIENT} and {role} are one machine: traffic between them never left it"


def _network(facts: Mapping[str, str]) -> tuple[str, str]:
    return facts.get("boot", ""), facts.get("network", "")


def _no_interface(
    hosts: Mapping[str, Mapping[str, str]], interfaces: Mapping[str, str]
) -> Iterator[str]:
    for role, interface in interfaces.items():
        names = [name for name in hosts.get(role, {}) if name.startswith("nic ")]
        if names and f"nic {interface}" not in names:
            yield f"{role} has no interface {interface}, so settings of it were left out"


def _describe(addresses: Mapping[str, str], interfaces: Mapping[str, str]) -> Iterator[str]:
    for role, address in addresses.items():
        yield (
            f"{role}: {interfaces.get(role)} does not have the address {address}, so test "
            "traffic may have passed another interface"
        )
