"""Labs that can decide each claim, if any: box, KVM, ESXi; from what studies and settings say."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from labkit import kernels
from labkit.box import topology
from labkit.box.box import DEFAULT
from labkit.box.machine import Machine
from labkit.claim import Claim, NotHere
from labkit.condition import Condition
from labkit.errors import LabkitError
from labkit.host import Guest, Host
from labkit.running import sizes
from labkit.setting import Setting, way_among
from labkit.statistics.measurand import Measurand, measurands, plain
from labkit.study import Study
from labkit.transports.local import Local
from labkit.verdict import REAL_KERNEL

SMALL = Machine.of(2)
WITH_KVM = "box with KVM"
BOXES = ("box", WITH_KVM)
"""A box whose guests run by emulation, and one on a machine where KVM boots them."""
LABS = {
    **dict.fromkeys(BOXES, ("box", "docker", "linux")),
    "KVM": ("kvm", "docker", "linux"), "ESXi": ("esxi",),
}  # fmt: skip
"""Kinds of lab, and what the hosts of each are that run guests."""
LARGE = ("large", "larger", "largest")
GUESTS = {
    **{f"guest{n}".removesuffix("1"): Guest(f"vm{n}", "192.0.2.1") for n in range(1, 9)},
    **{name: Guest(name, "192.0.2.1") for name in LARGE},
}
VIRTUAL = ("guest", "client", sizes.TWIN, *LARGE)
"""Prefixes of the roles that are plain Linux on any lab."""


@dataclass(frozen=True)
class Decider:
    """Whether the hosts of one kind of lab can decide a claim; `why` not, empty where they can."""

    lab: str
    why: str


def deciders(study: Study, claim: Claim, machine: Machine = SMALL) -> list[Decider]:
    """List what stands in the way of each kind of lab; a box is one on this machine."""
    return [Decider(lab, next(_whys(study, claim, lab, machine), "")) for lab in LABS]


def decided_on(machine: Machine, studies: Sequence[Study], lab: str = "box") -> list[str]:
    """The claims that a box on a machine decides."""
    return [
        claim.id for study in studies for claim in study.claims
        if not next(_whys(study, claim, lab, machine), "")
    ]  # fmt: skip


def rows(studies: Sequence[Study]) -> list[dict[str, str]]:
    """A row for each claim; the reasons that several kinds of lab share stand once."""
    return [_row(study, claim) for study in studies for claim in study.claims]


def _row(study: Study, claim: Claim) -> dict[str, str]:
    reasons = deciders(study, claim)
    whys: dict[str, list[str]] = {}
    for decider in reasons:
        if decider.why:
            whys.setdefault(decider.why, []).append(decider.lab)
    nobody = len(next(iter(whys.values()), ())) == len(LABS)
    text = "; ".join(f"{', '.join(labs)}: {why}" for why, labs in whys.items())
    cells = {decider.lab: "no" if decider.why else "yes" for decider in reasons}
    return {"claim": claim.id, **cells, "why not": next(iter(whys)) if nobody else text}


# The first that is found is the reason that is shown.
def _whys(study: Study, claim: Claim, lab: str, machine: Machine) -> Iterator[str]:
    if isinstance(claim, NotHere):
        yield claim.why
    yield from _of(study.unmeasured, claim)
    if lab in BOXES:
        yield from _of(study.untold, claim)
        yield from [claim.hardware] if claim.hardware else []
    if lab == "box":
        yield from _by_emulation(study, claim)
    study = sizes.with_twin(study, GUESTS) if lab == "ESXi" else study
    conditions = _conditions(study, claim)
    lacking = [name for name in claim.names() if not _known(name, conditions)]
    yield from [f"no condition {Measurand.of(lacking[0]).at}"] if lacking else []
    for condition in conditions:
        yield from _lacking(study, condition, lab)
    yield from _by_events(study, claim, conditions, lab)
    if lab == "ESXi":
        yield from _by_kernel(study, claim, conditions)
    if lab in BOXES:
        yield from _by_machine(study, claim, machine)


# As large as its topology grows there.
def _by_machine(study: Study, claim: Claim, machine: Machine) -> Iterator[str]:
    plan = topology.find(study.topology or DEFAULT, machine)
    cpus = {host.role: {*host.among(machine.cpus, machine.by_node)} for host in plan.hosts}
    server = cpus["server"]
    least = study.least_cpus.get(claim.id, 0)
    if claim.id in study.apart and cpus["client"] & server:
        yield "on fewer than three CPUs the client shares those of the guests"
    if len(server) <= len(plan.guests_on("server")):
        yield from _of(study.crowded, claim)
    if min(len(server), sum(int(guest.vcpus) for guest in plan.guests)) < least:
        yield f"on fewer than {least} CPUs for the servers"
    if claim.id in study.takes and not _has(study.takes[claim.id], server, machine):
        yield f"on a machine without {study.takes[claim.id]}"


# Whether it lets a guest have real-time priority only a try on the machine itself shows.
def _has(what: str, cpus: set[int], machine: Machine) -> bool:
    threads = [core for node in machine.nodes for core in node if len(core) > 1]
    return {
        "several NUMA nodes": sum(bool(cpus & {*node}) for node in machine.by_node) > 1,
        "hyper-threads and CPUs to spare": len(threads) > 1,
    }.get(what, False)


def _of(reasons: object, claim: Claim) -> Iterator[str]:
    assert isinstance(reasons, dict)
    for name, why in reasons.items():
        if name == claim.id or any(measurand.has(name) for measurand in measurands(claim.names())):
            yield str(why)


def _by_emulation(study: Study, claim: Claim) -> Iterator[str]:
    yield from _of(study.emulated, claim)
    kinds = {c.name: REAL_KERNEL if not c.in_guest else kernels.EMULATION
            for c in study.conditions if c.in_guest is not None}  # fmt: skip
    if kernels.decided([c.what.names for c in claim.comparisons()], kinds):
        yield "the emulation decides between a real kernel and a guest"


def _conditions(study: Study, claim: Claim) -> list[Condition]:
    names = claim.conditions_among(condition.name for condition in study.conditions)
    return [condition for condition in study.conditions if condition.name in names]


def _known(name: str, conditions: Sequence[Condition]) -> bool:
    return any(Measurand.of(name).is_of(condition.name) for condition in conditions)


# What drives an event there may not do it so, or may not tell what is asked of it.
def _by_events(
    study: Study, claim: Claim, conditions: Sequence[Condition], lab: str
) -> Iterator[str]:
    of_claim = [name.metric or study.metric for name in measurands(claim.names())]
    metrics = {study.metric, *of_claim}
    lab = "box" if lab in BOXES else lab
    for condition, event in ((c, e) for c in conditions for e in c.events):
        if why := event.impossible(lab):
            yield f"{condition.name}: {why}"
        unseen = {plain(name): why for name, why in event.unseen(lab).items()}
        for metric in sorted(plain(name) for name in metrics):
            if metric in unseen:
                yield f"{metric}: {unseen[metric]}"


# What runs on the twin is counted there.
def _by_kernel(study: Study, claim: Claim, conditions: Sequence[Condition]) -> Iterator[str]:
    asked = {plain(name.metric or study.metric) for name in measurands(claim.names())}
    counted = {plain(name) for load in study.loads for name in load.of_kernel}
    on_esxi = [c.name for c in conditions if sizes.SERVER in c.players("host")]
    if on_esxi and (metrics := sorted(asked & counted)):
        yield f"{on_esxi[0]}: VMkernel has no counters of {metrics[0]}"


# What needs a program, such as OpenOnload, is brought to a host of one's own.
def _lacking(study: Study, condition: Condition, lab: str) -> Iterator[str]:
    roles = {player for role in study.workload.roles for player in condition.players(role)}
    in_guest = condition.in_guest or any(role.startswith(("guest", *LARGE)) for role in roles)
    if lab == "ESXi" and not in_guest and sizes.SERVER in roles:
        yield f"{condition.name}: VMkernel would answer, no machine"
    stood = {one.instead_of for one in condition.optional}
    for setting in condition.settings:
        if setting not in stood and (why := _refused(setting, lab)):
            yield f"{condition.name}: {why}"


def _refused(setting: Setting, lab: str) -> str:
    plain = str(setting.role).startswith(VIRTUAL)
    kinds = ("linux",) if plain and lab not in BOXES else LABS[lab]
    host = Host(setting.role, "192.0.2.1", Local(), "eth1", guests=GUESTS)
    try:
        way_among(setting, kinds, host)
    except LabkitError as no:
        return no.what.removeprefix(f"{host.name}: ")
    return ""
