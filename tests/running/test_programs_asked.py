"""Programs that a study needs and a host lacks are named, with the way to get them."""

from dataclasses import replace
from pathlib import Path

from labkit.host import Host
from labkit.running import possible
from labkit.workloads import _pairs as pairs
from labkit.workloads.ping import Ping
from tests.running.test_study import A, B, a_study

PROGRAMS = ("netperf", "onload")


def of_load(load, *conditions, **more):
    return replace(a_study(*conditions, claims=(), load=load), **more)


class Rare(Ping):
    beside = ()

    @property
    def tools(self):
        return {"sh": "", "no-such-program": "apt-get install it"}


def test_a_program_that_is_missing_is_named_with_the_way_to_get_it(lab):
    study = of_load(Rare(), A)
    said = "no-such-program is missing on client, to get it: apt-get install it"
    assert possible.refusals(study, lab)["a"] == said


class OfOneEnd(Rare):
    @property
    def only(self):
        return {"no-such-program": "server"}


def test_a_program_that_one_end_calls_is_asked_of_that_end_alone(lab):
    study = of_load(OfOneEnd(), A)
    why = possible.refusals(study, lab)["a"]
    assert why.startswith("no-such-program is missing on server")
    assert pairs.absent([(OfOneEnd(), {"a": lab.hosts})])["client"] == []


class NotHere(Ping):
    @property
    def tools(self):
        return {"zypper": "", "onload": "its maker", "netperf": "apt-get"}


def test_where_a_package_brings_it_labkit_prepare_does(lab):
    load, there = NotHere(), {"here": lab.hosts}
    for program, how in (("netperf", "labkit prepare a --non-free"), ("onload", "its maker")):
        absent = {host.name: [program] for host in lab.hosts.values()}
        said = pairs.missing_tool(load, there, absent, "labkit prepare a")
        assert said.endswith(f"to get it: {how}")
    own = replace(lab, tier="hosts", path=Path("/my labs/lab.toml"))
    command = possible.prepare_command(of_load(Ping(), A), own)
    assert command == "labkit prepare lat_ping --lab '/my labs/lab.toml'"


def test_each_host_is_asked_once_for_the_programs_of_all_conditions(lab, monkeypatch):
    asked, check = [], Host.check

    def counted(host, *words, **how):
        asked.append(host.name) if pairs.FIND in words else None
        return check(host, *words, **how)

    monkeypatch.setattr(Host, "check", counted)
    study = of_load(Rare(), A, B, also=(OfOneEnd(),))
    assert possible.refusals(study, lab).keys() == {"a", "b"}
    assert sorted(asked) == sorted({lab.host(role).name for role in Ping.roles})
