"""Two settings on the same hosts, together and nested, in both orders: what becomes of them.

The page of pairs has those that do not go together as usual, by kind of host.
"""

import os
import re
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from itertools import combinations, permutations
from pathlib import Path

from labkit.changes.in_force import applied
from labkit.changes.journal import hello
from labkit.changes.plan import plan
from labkit.errors import BadInput, SettingRefused

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


def pairs(settings, guests=()):
    """Each two settings of one device, and of each that has several values two of them."""
    again = [tuple(setting[:2]) for setting in settings if setting[1:]]
    both = combinations([setting[0] for setting in settings], 2)
    one = [pair for pair in both if devices(pair[0], guests) & devices(pair[1], guests)]
    return [*one, *again]


def texts(hosts, settings):
    """What the hosts show of them; a guest may have been started again, so it is logged in anew."""
    for role in hosts:
        if role.startswith("guest"):
            hosts[role].close()
    return {step.thing: (step.text, step.why) for step in plan(settings, hosts).steps}


def outcome(hosts, blocks, pair, before):
    """What becomes of these blocks of settings, one inside the other."""
    with ExitStack() as held:
        for block in blocks:
            before = before if block is blocks[0] else texts(hosts, pair)
            try:
                held.enter_context(applied(block, hosts))
            except (SettingRefused, BadInput) as why:
                changed = texts(hosts, pair) != before
                return f"{REFUSED}, and changed something: {why}" if changed else REFUSED
            wrong = [s.thing for s in plan(block, hosts).steps if s.current != s.setting.wanted]
            if wrong:
                return f"not made: {', '.join(wrong)}"
    return BACK


def tried(hosts, pair):
    """What becomes of a pair each way, and what was not as it should be."""
    before, odd, found = texts(hosts, pair), [], []
    for order in permutations(pair):
        for blocks in ([order], [(one,) for one in order]):
            found.append(outcome(hosts, blocks, pair, before))
            if found[-1] not in (BACK, REFUSED):
                odd.append(found[-1])
            if texts(hosts, pair) != before:
                odd.append("something stayed")
            odd += [f"open: {one}" for host in hosts.values() for one in hello(host).open]
    together, nested, swapped, outside = found
    return Pair(together, swapped, nested, outside), odd


def of_part(hosts, some):
    """What becomes of some of the pairs by their labels, and what was not as it should be."""
    found, odd = {}, []
    for pair in some:
        became, wrong = tried(hosts, pair)
        odd += [f"{' and '.join(map(str, pair))}: {why}" for why in wrong]
        found[label(pair)] = became, pair[0].thing == pair[1].thing
    return found, odd
