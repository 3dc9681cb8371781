"""Programs that the hosts of a lab lack for studies, brought by each system's packages."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from labkit.box.needs import missing
from labkit.changes.journal import hello
from labkit.errors import HostError
from labkit.fleet.fleet import AT_ONCE
from labkit.host import Host
from labkit.lab import Lab
from labkit.machine.scripts import beside
from labkit.machine.stopping import together
from labkit.programs import packages as known
from labkit.programs import simulator
from labkit.programs.packages import installable, of_class, package_of
from labkit.settings._ways import script
from labkit.study import Study
from labkit.transports.local import Local
from labkit.workload import Workload

THIS_MACHINE = "this machine"
# A host of a kind has these by itself; no study needs them on any other.
OF_KIND = {"virsh", "docker"}
VCSIM = "vcsim"
LOOK = beside(__file__, "preparing_look.sh")
INSTALL_SECONDS = 1800.0
Callers = Mapping[str, str]
"""By program, which workload or setting calls it."""


@dataclass(frozen=True)
class Lack:
    """Programs that one host lacks, who calls them, and the packages that bring them."""

    host: str
    system: str = ""
    programs: Callers = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    command: str = ""
    """Command to install the packages, to be typed as root there; it may start services."""
    not_free: Mapping[str, str] = field(default_factory=dict)
    """Packages that are not free, and what is used instead of each."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Programs that no package brings, and who has them."""
    built: str = ""
    """Way in which labkit builds what is missing, with its size; empty where there is no need."""
    trouble: str = ""
    """Reason why the host could not be asked."""


def needed(studies: Iterable[Study], lab: Lab | None) -> dict[str, dict[str, str]]:
    """By host, the programs that the studies call there; a box shares those of this machine."""
    if lab is None:
        absent = [program for lack in missing().values() for program in lack.absent]
        needs = dict.fromkeys(absent, "the lab in a box")
        for study in studies:
            for c in study.conditions:
                loads = [of for load in study.loads for of in (c.load(load), load.freed())]
                for caller in (*loads, *c.settings, *c.optional):
                    for program, name in _calls(caller).items():
                        needs.setdefault(program, name)
            needs |= _compiled_for(study)
        return {THIS_MACHINE: needs}
    return _of_lab(studies, lab)


def _of_lab(studies: Iterable[Study], lab: Lab) -> dict[str, dict[str, str]]:
    lacks: dict[str, dict[str, str]] = {role: {} for role in lab.hosts}
    for study in studies:
        for condition in study.conditions:
            for load in study.loads if not condition.lacks_host(lab, study.workload) else ():
                for pair in condition.pairs(lab, load).values():
                    for role in (role for role in pair if role not in load.beside):
                        for row in (condition.load(load), load.freed()):
                            callers = {program: by for program, by in _calls(row).items()
                                       if load.only.get(program, role) == role}  # fmt: skip
                            lacks.setdefault(pair[role].name, {}).update(callers)
            for setting in condition.asked(lab):
                if setting.role in lacks:
                    lacks[setting.role].update(_calls(setting))
    if tools := dict(row for study in studies for row in _compiled_for(study).items()):
        lacks[THIS_MACHINE] = tools
    return lacks


def _compiled_for(study: Study) -> dict[str, str]:
    """What the machine that labkit runs on needs, so that hosts need it not."""
    return {word: type(load).__name__ for load in study.loads for word in load.here}


def _calls(caller: object) -> dict[str, str]:
    words = {word for word in of_class(type(caller)) if installable(word) and word not in OF_KIND}
    words |= set(getattr(caller, "tools", ()))
    return dict.fromkeys(sorted(words), type(caller).__name__)


def lacking(studies: Iterable[Study], lab: Lab | None, non_free: bool = False) -> list[Lack]:
    """List what each host lacks for these studies; nothing is changed."""
    needs = needed(list(studies), lab)
    hosts = _hosts(lab)
    names = [name for name in needs if name in hosts]
    return list(together(lambda n: _ask(hosts[n], needs[n], non_free), names, AT_ONCE))


def _hosts(lab: Lab | None) -> Mapping[str, Host]:
    hosts = {THIS_MACHINE: Host(THIS_MACHINE, "127.0.0.1", Local())}
    return {**lab.hosts, **hosts} if lab else hosts


def _ask(host: Host, calls: Callers, non_free: bool) -> Lack:
    try:
        if host.name != THIS_MACHINE and "esxi" in hello(host).kinds:
            return Lack(host.name, "esxi")
        lines = host.check("sh", "-c", LOOK, "labkit", *calls).splitlines()
    except HostError as silent:
        return Lack(host.name, trouble=silent.what)
    release = next((line[1:] for line in lines if line.startswith("=")), "")
    system = known.system_of(known.os_release(release))
    absent = {line[1:]: calls[line[1:]] for line in lines if line.startswith("-")}
    if simulator.path():  # it may be where PATH does not lead
        absent.pop(VCSIM, "")
    return _lack(host.name, system, absent, non_free)


def _lack(name: str, system: str, absent: Callers, non_free: bool) -> Lack:
    programs = [program for program in absent if installable(program)]
    packages = tuple(known.names_of(programs, system or "debian", free=not non_free))
    by = known.unpackaged()
    packages_of = {package_of(program).name: package_of(program) for program in programs}
    return Lack(
        name, system, absent, packages,
        shlex.join([*known.install_words(system), *packages]) if packages and system else "",
        {} if non_free else {n: row.instead for n, row in packages_of.items() if row.source},
        {word: by[word] for word in absent if word in by and word != VCSIM},
        simulator.way() if VCSIM in absent else "",
    )  # fmt: skip


def bring(lab: Lab | None, lack: Lack, tell: Callable[[str], None], non_free: bool = False) -> None:
    """Install the packages on the host, as root or by sudo; each line said there is passed on.

    What is built is built on this machine.
    """
    if lack.packages:
        _install(lab, lack, tell, non_free)
    if lack.built:
        simulator.build(lambda line: tell(f"{lack.host}: {line}"))


def _install(lab: Lab | None, lack: Lack, tell: Callable[[str], None], non_free: bool) -> None:
    host = _hosts(lab)[lack.host].as_root()
    words = script(known.SCRIPT.read_text("utf-8"), "for studies", *lack.packages)
    variables = {"NON_FREE": "yes"} if non_free else {}
    with host.stream(*words, env=variables, seconds=INSTALL_SECONDS) as lines:
        for line in lines:
            tell(f"{lack.host}: {line.text}")


def unpackaged_of(studies: Iterable[Study], lab: Lab | None) -> list[tuple[Workload, Host]]:
    """Workloads with something to install that no package brings, and each host that runs them."""
    loads: dict[tuple[str, str], tuple[Workload, Host]] = {}
    for study in studies:
        for load in (load for load in study.loads if load.brings):
            hosts = list(_hosts(None).values())
            if lab:
                able = (c for c in study.conditions if not c.lacks_host(lab, study.workload))
                pairs = (pair for c in able for pair in c.pairs(lab, load).values())
                hosts = [h for p in pairs for role, h in p.items() if role not in load.beside]
            loads |= {(load.name, host.name): (load, host) for host in hosts}
    return list(loads.values())
