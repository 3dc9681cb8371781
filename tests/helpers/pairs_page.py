"""The page of pairs of settings: what it says of each kind of host, and how it is written."""

import re
from dataclasses import astuple, dataclass, replace
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
NAMED = {"vm": "guest {}", "guest": "guest {}", "disk": "a disk", "group": "a control group",
         "container": "container {}"}  # fmt: skip
FILE = Path(__file__).resolve().parents[2] / "notebooks/docs/proof/devices.md"
BEGUN, ENDED = "<!-- pairs: written by tests/settings/test_pairs.py -->\n", "<!-- end of pairs -->"
BACK, REFUSED = "restored", "refused"
KINDS = """\
| host | settings | pairs | tried | absent where the tests ran |
|---|---|---|---|---|
"""
DEVICES = """\
| host | device | settings of it |
|---|---|---|
"""
HEAD = """\
| host | pair | together | in the other order | second inside the first | first inside the second |
|---|---|---|---|---|---|
"""
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|$", re.MULTILINE)
KIND = re.compile(r"^\| `(\w+)` \| (\d+ \| \d+ \| [\w, ]+ \| [^|]*)\|$", re.MULTILINE)
PARTS = re.compile(r"\| parts ([\d, ]+) of (\d+) \|")
DEVICE = re.compile(r"^\| `(\w+)` \| ([^|]+) \| (`[^|]+) \|$", re.MULTILINE)


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
    told = [(say, getattr(setting, name)) for name, say in NAMED.items() if hasattr(setting, name)]
    told += [("guest {}", setting.role)] if setting.role != "server" else []
    own = {say.format(guests[name].vm if name in guests else _plain(name)) for say, name in told}
    return own | {sort for sort, some in SORTS.items() if module in some} or {module}


def _plain(name):
    return "of QEMU" if str(name).startswith("/") else name


def label(pair):
    """The two by their classes; of one class for two sorts of things or hosts, those too."""
    return ", ".join(f"`{type(one).__name__}`{_sort(one)}" for one in pair)


def _sort(setting):
    if setting.role != "server":
        return f" of the {setting.role}"
    if type(setting).__name__ in SEVERAL:
        return f" of `{setting.which}`"
    return " of QEMU" if str(getattr(setting, "vm", "")).startswith("/") else ""


@dataclass(frozen=True)
class Page:
    """What the page says: of each kind its settings, and the pairs that are not as usual."""

    kinds: dict
    devices: dict
    rows: dict

    @classmethod
    def read(cls):
        """As it is now."""
        text = FILE.read_text("utf-8").partition(BEGUN)[2].partition(ENDED)[0]
        rows = {(kind, name): Pair(*became) for kind, name, *became in ROW.findall(text)}
        some = {(kind, device): names for kind, device, names in DEVICE.findall(text)}
        return cls(dict(KIND.findall(text)), some, rows)

    def named(self, kind):
        """Each setting that is named there of a kind of host."""
        said = [names for (one, _), names in self.devices.items() if one == kind]
        return set(re.findall(r"`(\w+)`", " ".join([*said, self.kinds.get(kind, "")])))

    def said(self, kind, name, same):
        """What it says of a pair, and whether the two are of one thing."""
        return self.rows.get((kind, name), USUAL[same]), same

    def of_kind(self, kind, settings, lacking, count, part, guests=()):
        """With the settings of a kind of host, how many pairs of them share a device, and a part.

        A part is its number and how many there are; those that were tried are kept.
        """
        some = {}
        for setting in settings:
            for device in devices(setting, guests):
                some.setdefault(device, set()).add(type(setting).__name__)
        made = {(kind, device): _listed(names) for device, names in some.items()}
        kept = {key: names for key, names in self.devices.items() if key[0] != kind}
        parts = f"parts {self._tried(kind, *part)} of {part[1]}"
        text = f"{len(settings)} | {count} | {parts} | {_listed(lacking)} "
        return replace(self, kinds={**self.kinds, kind: text}, devices=kept | made)

    def _tried(self, kind, part, count):
        match = PARTS.search(self.kinds.get(kind, ""))
        before = match[1].split(", ") if match and int(match[2]) == count else []
        return ", ".join(sorted({*before, str(part + 1)}, key=int))

    def with_found(self, kind, found):
        """With what came of some of the pairs of a kind of host."""
        rows = {key: row for key, row in self.rows.items() if key not in {(kind, n) for n in found}}
        for name, (became, same) in found.items():
            if became != USUAL[same]:
                rows[kind, name] = became
        return replace(self, rows=rows)

    def write(self):
        """Write it into the page, between its marks."""
        before, _, rest = FILE.read_text("utf-8").partition(BEGUN)
        after = rest.partition(ENDED)[2]
        kinds = "".join(f"| `{kind}` | {said}|\n" for kind, said in sorted(self.kinds.items()))
        text = "".join(
            f"| `{a}` | {b} | {names} |\n" for (a, b), names in sorted(self.devices.items())
        )
        rows = "".join(
            f"| `{kind}` | {name} | {' | '.join(astuple(row))} |\n"
            for (kind, name), row in sorted(self.rows.items())
        )
        tables = f"{KINDS}{kinds}\n{DEVICES}{text}\n{HEAD}{rows}"
        FILE.write_text(f"{before}{BEGUN}{tables}{ENDED}{after}", "utf-8")


def _listed(names):
    return "; ".join(f"`{name}`" for name in sorted(names))
