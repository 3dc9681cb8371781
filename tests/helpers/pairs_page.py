"""The page of pairs of settings: which of them do not go together as usual, by kind of host."""

import os
import re
from dataclasses import astuple, dataclass
from pathlib import Path

# What settings of these modules are about, besides what they name.
SORTS = {
    "NIC": ("mtu", "egress", "offloads", "queues", "vnic", "guest_nic", "passthrough"),
    "TCP": ("sockets",),
    "CPUs": ("power", "neighbour", "halting", "processes", "other_cpus", "exclusive_cpu",
             "full_reservation", "guest_cpu", "guest_cores", "latency_sensitivity", "boot"),
    "memory": ("memory", "reclaim", "neighbour", "full_reservation", "guest_size"),
    "start": ("boot", "esxi", "passthrough"),
    "disks": ("storage",),
}  # fmt: skip
NAMED = ("vm", "guest", "disk", "group", "container")
FILE = Path(__file__).resolve().parents[2] / "notebooks/docs/proof/devices.md"
BEGUN, ENDED = "<!-- pairs: written by tests/settings/test_pairs.py -->\n", "<!-- end of pairs -->"
BACK, REFUSED = "restored", "refused"
HEAD = """\
| host | pair | together | in the other order | second inside the first | first inside the second |
|---|---|---|---|---|---|
"""
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Pair:
    """What becomes of two settings: together in each order, and one inside the other."""

    together: str = BACK
    swapped: str = BACK
    nested: str = BACK
    outside: str = BACK


# Tried on several things of one host.
SEVERAL = ("AdvancedOption", "MigrationNetwork", "SocketBuffers")
# Nothing has two values at once; an inner block may have another than the outer one.
USUAL = {False: Pair(), True: Pair(REFUSED, REFUSED)}


def devices(setting, guests=()):
    """What a setting is about: what it names, the guest that it is made in, sorts of devices."""
    module = type(setting).__module__.rpartition(".")[2]
    names = [getattr(setting, name) for name in NAMED if hasattr(setting, name)]
    names += [setting.role] if setting.role != "server" else []
    own = {guests[name].vm if name in guests else name for name in names}
    return own | {sort for sort, some in SORTS.items() if module in some} or {module}


def label(pair):
    """The two by their classes; of one class for two sorts of things or hosts, those too."""
    return ", ".join(f"`{type(one).__name__}`{_sort(one)}" for one in pair)


def _sort(setting):
    if setting.role != "server":
        return f" of the {setting.role}"
    return f" of `{setting.which}`" if type(setting).__name__ in SEVERAL else ""


def _rows(text):
    return {(kind, name): Pair(*became) for kind, name, *became in ROW.findall(text)}


def as_told(kind, found):
    """Compare what came of some pairs with the page; with LABKIT_WRITE=yes it is written there."""
    before, _, rest = FILE.read_text("utf-8").partition(BEGUN)
    table, _, after = rest.partition(ENDED)
    rows = _rows(table)
    if os.environ.get("LABKIT_WRITE"):
        odd = {(kind, n): became for n, (became, same) in found.items() if became != USUAL[same]}
        kept = {key: row for key, row in rows.items() if key[0] != kind or key[1] not in found}
        rows = kept | odd
        lines = (f"| `{kind}` | {name} | {' | '.join(astuple(row))} |\n"
                 for (kind, name), row in sorted(rows.items()))  # fmt: skip
        FILE.write_text(f"{before}{BEGUN}{HEAD}{''.join(lines)}{ENDED}{after}", "utf-8")
    told = {name: rows.get((kind, name), USUAL[same]) for name, (_, same) in found.items()}
    assert {name: became for name, (became, _) in found.items()} == told
