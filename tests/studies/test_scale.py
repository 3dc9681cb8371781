"""Two scales of a study, from one declaration: what fits a lab, and its document's own sizes."""

import re
from dataclasses import replace

import pytest
from planted import results

from labkit import studies
from labkit.box.machine import Machine
from labkit.errors import BadInput, LabkitError, ResultsError, Unknown
from labkit.host import Host
from labkit.lab import Lab
from labkit.machine.places import HOME
from labkit.results import Results
from labkit.running import compared, notebook, sizes
from labkit.running.open_lab import (
    check_parameters,
    knobs_among,
    open_lab,
    stored_results,
    study_results,
    with_load,
)
from labkit.running.sizes import grown
from labkit.runs.capacity import Capacity
from labkit.study import DOCUMENT, FIT, Had
from labkit.transports.local import Local

DOCUMENTS = {name: studies.find(name).document for name in studies.names()}
SCALED = [name for name, has in DOCUMENTS.items() if has.machines or has.sizes]
LARGE = [name for name, has in DOCUMENTS.items() if has.machines]
UNSAID = [name for name in studies.names() if name not in SCALED]


def values(name, **given):
    source = notebook.notebook(name)
    defaults = {
        key: one["default"].strip("'\"") for key, one in notebook.parameters(source).items()
    }
    return notebook.read_parameters(source, {**defaults, "where": "lab.toml", **given})


def test_a_study_without_sizes_of_its_document_says_so():
    assert len(SCALED) >= 15 and "kvm_docker_report" in UNSAID
    for name in UNSAID:
        with pytest.raises(BadInput, match="declares no sizes of its document"):
            with_load(studies.find(name), scale=DOCUMENT)


@pytest.mark.parametrize("name", SCALED)
def test_the_notebook_of_a_study_takes_both_scales_with_its_other_parameters_as_they_are(name):
    study = studies.find(name)
    plain = {**values(name), "seed": 1}
    assert with_load(study, **knobs_among(study, plain)).asked("box", 1).get("scale", FIT) == FIT
    asked = with_load(study, **knobs_among(study, values(name, scale=DOCUMENT)))
    assert asked.scale == DOCUMENT
    have = {**vars(asked.workload), **asked.sizes}
    assert {key: have[key] for key in study.document.sizes} == dict(study.document.sizes)
    assert [condition.name for condition in asked.conditions] == [
        condition.name for condition in study.conditions
    ]
    assert asked.asked("box", 1) != study.asked("box", 1), "results of their own"


def memory_free(text):
    """The text without the free memory, which changes between two looks."""
    return re.sub(r"[\d.]+ of ([\d.]+ GiB)", r"\1", text)


@pytest.mark.parametrize("name", LARGE)
def test_the_plan_of_the_documents_scale_says_what_it_takes_and_what_a_box_here_lacks(name, typed):
    output = typed("plan", name, "-p", "scale=document")
    assert "The document's scale takes:\n" in output and "This lab lacks" in output
    study = with_load(studies.find(name), scale=DOCUMENT)
    for line in (*sizes.takes(study), *sizes.lacks_of_box(study, Machine.read())):
        assert memory_free(f"  {line}\n") in memory_free(output)
    told = typed("plan", name, "-p", "scale=document", "--json")["scale"]
    assert told["takes"] == sizes.takes(study) and told["lacks"]


def test_what_a_lab_lacks_is_named_by_role_and_by_how_much():
    study = with_load(studies.find("redis_scaleout"), scale=DOCUMENT)
    lacks = sizes.lacks_of_box(study, Machine.of(2, gib=24))
    assert "no guest3 to guest8" in lacks and "no inner3 to inner8" in lacks
    assert "server: 1 of 32 CPUs, 24 of 96 GiB, 1 of 2 NUMA nodes" in lacks
    assert "guest, guest2: 1 of 2 CPUs, 0.25 of 11 GiB" in lacks
    large = sizes.lacks_of_box(study, Machine.of(64, nodes=2, threads=2, gib=256))
    assert [line for line in large if line.startswith("no ")] == []
    wired = with_load(studies.find("docker_netperf"), scale=DOCUMENT)
    assert "the line: 1 of 10 Gbit/s" in sizes.lacks_of_box(wired, Machine.of(64, gib=1024))


def capacities(**guest):
    had = {"cpus": 2, "memory": 11 << 20, "free": 10 << 20, "nodes": 1, **guest}
    many = {f"guest{n}".removesuffix("1"): Capacity(**had) for n in range(1, 9)}
    return {**many, "server": Capacity(32, 96 << 20, 90 << 20, nodes=2)}


@pytest.mark.parametrize("guest, lacks", [
    ({}, []), ({"cpus": 1}, ["1 of 2 CPUs"]), ({"memory": 4 << 20}, ["4 of 11 GiB"]),
])  # fmt: skip
def test_hosts_of_ones_own_carry_it_or_are_refused_for_what_they_lack(guest, lacks):
    study = with_load(studies.find("redis_scaleout"), scale=DOCUMENT)
    found = sizes.lacks_of_hosts(study, capacities(**guest))
    assert [line.partition(": ")[2] for line in found] == lacks
    if lacks:
        with pytest.raises(BadInput, match="mine cannot carry the document's scale") as error:
            sizes.refuse(study, "mine", found)
        assert lacks[0] in str(error.value) and "scale = fit" in str(error.value)
    sizes.refuse(study, "mine", [])


def test_the_documents_scale_is_refused_before_a_box_is_started(monkeypatch, typed):
    monkeypatch.setattr("labkit.box.up", None)
    output = typed("run", "redis_scaleout", "-p", "scale=document", code=2)
    assert "a box on this machine cannot carry the document's scale" in output
    assert (
        "no guest3 to guest8" in output and "labkit plan redis_scaleout -p scale=document" in output
    )
    with pytest.raises(BadInput, match="cannot carry"):
        open_lab("box", with_load(studies.find("redis_scaleout"), scale=DOCUMENT))


def test_an_unknown_scale_is_answered_with_the_known_ones(typed):
    with pytest.raises(Unknown, match="known: document, fit"):
        with_load(studies.find("docker_fio"), scale="large")
    assert "did you mean 'document'" in typed("plan", "docker_fio", "-p", "scale=documnt", code=2)
    assert "does not take seed" in typed("plan", "docker_fio", "-p", "seed=2", code=2)


def test_a_size_is_the_scales_or_the_readers_never_silently_both():
    study = studies.find("redis_scaleout")
    with pytest.raises(BadInput, match="scale = document of redis_scaleout sets guests = 8 itself"):
        with_load(study, scale=DOCUMENT, guests=4)
    check = {"where": "lab.toml", "label": "x", "scale": DOCUMENT, "keys": 5}
    with pytest.raises(LabkitError, match=r"lab\.toml|keys = 250000000"):
        check_parameters(study, check)
    later = with_load(with_load(study, scale=DOCUMENT), duration=3, keys=10_000)
    assert later.workload.keys == 250_000_000 and later.workload.duration == 3


def test_recorded_results_of_an_older_labkit_fit_their_lab_and_answer_for_no_other_scale():
    study = studies.find("docker_fio")
    old = study_results(study, None, "recorded")
    assert "scale" not in old.asked and old.finished()
    with pytest.raises(BadInput, match="of scale fit, and document is asked for"):
        study_results(with_load(study, scale=DOCUMENT), None, "recorded")
    assert stored_results("docker_fio", "recorded").finished(), "nothing is lost"


def test_results_of_a_scale_that_only_a_newer_labkit_knows_are_named(tmp_path):
    study = studies.find("docker_fio")
    folder = Results.begin(tmp_path / "new", {"study": study.name, "scale": "galaxy"}).path
    with pytest.raises(ResultsError, match="its scale 'galaxy' is one that a newer labkit"):
        study_results(study, None, str(folder))


def test_results_of_two_scales_are_never_compared(tmp_path):
    old = new = results(tmp_path)
    large = replace(new, asked={**new.asked, "scale": DOCUMENT})
    with pytest.raises(BadInput, match=r"scale fit, .* of document: not comparable"):
        compared.of_results(old, large)


def lab(*roles):
    return Lab("mine", {role: Host(role, "127.0.0.1", Local(role)) for role in roles})


def guests(many, role="guest"):
    return (role, *(f"{role}{n}" for n in range(2, many + 1)))


@pytest.mark.parametrize("many, conditions", [(1, 2), (2, 2), (4, 4), (8, 8), (12, 8)])
def test_what_fits_grows_with_the_guests_of_a_lab(many, conditions):
    for name in ("redis_scaleout", "dvdstore_docker", "sqlserver_monster"):
        study = with_load(studies.find(name), **knobs_among(studies.find(name), values(name)))
        there = lab("server", "client", *guests(many))
        larger = grown(study, there)
        size = "small" if name == "sqlserver_monster" else "guests"
        assert larger.sizes[size] == conditions
        assert grown(with_load(study, **{size: 3}), there).sizes[size] == 3, "as one chose"
        assert grown(study, None) == study
        assert ("sizes" in larger.asked("box", 1)) == (conditions > 2)
    shops = grown(studies.find("dvdstore_docker"), lab(*guests(8)))
    assert len(shops.condition("Native-Docker-16S").players("server")) == 16


def test_affinities_and_cpus_that_a_document_names_are_in_the_conditions_of_its_scale():
    def made(name, condition):
        study = with_load(studies.find(name), scale=DOCUMENT)
        one = study.condition(condition)
        return [repr(setting) for setting in one.settings], one.load(study.workload)

    settings, load = made("docker_redis", "VM")
    assert load.pin == "0" and any("InterruptCpus" in one and "'1'" in one for one in settings)
    assert any("irqbalance" in one for one in settings)
    assert made("docker_fio", "VM-Docker")[1].pin == "0-7"
    for name, condition in (("lat_ping", "Native"), ("lat_10us", "Native-SFC")):
        assert any("OnlineCpus" in one and "cpus='0-1'" in one for one in made(name, condition)[0])
    settings, _ = made("docker_netperf", "VM, latency-sensitive")
    assert any("ExclusiveCpu" in one for one in settings)


def test_a_machine_that_has_most_of_its_memory_is_as_large_as_its_label():
    study = replace(studies.find("lat_ping"), scale=DOCUMENT)
    there = {"server": Capacity(12, 60 << 20, 50 << 20, nodes=2)}
    assert sizes.lacks_of_hosts(study, there) == []
    assert study.document.machines["server"] == Had(12, 64, 2)
    assert (HOME / "data/published/SOURCES.md").is_file()
