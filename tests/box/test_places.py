"""The four places of one machine: the same program in each, a container in a guest among them."""

import pytest
from boxes import OTHER
from leftovers import another

from labkit.box.containers import container
from labkit.box.guests import accelerator
from labkit.workloads import _compiled
from labkit.workloads._sections import parted
from labkit.workloads.linpack import Linpack

PROGRAMS = ("ping",)

PLACES = ("server", "container", "guest", "vmcontainer")
INSIDE = (("container", "server"), ("vmcontainer", "guest"))
AS_FAST = [pytest.approx(1, abs=0.25), pytest.approx(1, abs=0.35)]
pytestmark = [
    pytest.mark.box,
    pytest.mark.slow,
    pytest.mark.skipif(not container.choice("any"), reason="no engine; to get one: make system"),
    pytest.mark.skipif(bool(_compiled.lacking()), reason="no compiler; to get one: make system"),
]


@pytest.fixture(scope="module")
def lab():
    if not accelerator.choice("uml", lambda _: None):
        pytest.skip("no User-Mode Linux; to get it: make system")
    with another(OTHER, "places") as made:
        yield made


def said(lab, role, *words):
    return lab.host(role).check(*words).strip()


def test_a_container_has_the_kernel_of_what_runs_it_and_a_guest_its_own(lab):
    kernels = {role: said(lab, role, "uname", "-r") for role in (*PLACES, "hostnet", "vmhostnet")}
    assert kernels["server"] == kernels["container"] == kernels["hostnet"] != kernels["guest"]
    assert kernels["guest"] == kernels["vmcontainer"] == kernels["vmhostnet"]


def test_a_container_in_a_guest_sees_its_own_processes_and_is_reached_by_both_networks(lab):
    for role in ("vmcontainer", "vmhostnet"):
        names = said(lab, role, "sh", "-c", "cat /proc/[0-9]*/comm").split()
        assert "init" not in names and "sshd" in names
        at = lab.host(role).address
        assert lab.host("client").run("ping", "-n", "-q", "-c", "3", "-i", "0.1", at).ok
    assert said(lab, "vmcontainer", "hostname") != said(lab, "guest", "hostname")


def test_each_place_writes_to_a_disk_of_its_own_kernel(lab):
    kinds = {role: said(lab, role, "stat", "-f", "-c", "%T", "/run/labkit/scratch")
             for role in PLACES}  # fmt: skip
    assert "tmpfs" not in kinds.values(), kinds
    for outer, inner in (("server", "container"), ("guest", "vmcontainer")):
        lab.host(inner).put(outer.encode(), "/run/labkit/scratch/shared")
        assert lab.host(outer).get("/run/labkit/scratch/shared") == outer.encode()


def test_linpack_is_the_same_program_everywhere_and_a_container_costs_it_nothing(lab):
    load = Linpack(percent=1, threads=1)
    if why := load.lacking({"server": lab.host("server")}):
        pytest.skip(why)
    programs, best = set(), dict.fromkeys(PLACES, 0.0)
    # Whatever else runs on the machine slows a turn and never speeds it up: the best ones agree.
    # A turn is so short that some have a CPU to themselves.
    for _ in range(40):
        for role in PLACES:
            text = load.run({"server": lab.host(role)})
            programs.add(parted(text, "asked")["asked"].split("program=")[1])
            best[role] = max(best[role], float(Linpack.parse(text)[0].values[0]))
        ratios = [best[inner] / best[outer] for inner, outer in INSIDE]
        if ratios == AS_FAST:
            break
    assert len(programs) == 1
    assert ratios == AS_FAST
