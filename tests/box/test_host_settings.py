"""Settings on the hosts of a box, which are one machine, and on its guest, which is another."""

from dataclasses import replace

import pytest
from pairs_tried import texts

from labkit.changes.in_force import applied
from labkit.changes.plan import plan
from labkit.changes.restore import restore
from labkit.errors import Impossible, SettingRefused
from labkit.settings.boot import BootOptions
from labkit.settings.cgroup import (
    GroupCpuLimit,
    GroupCpuShares,
    GroupCpuWeight,
    GroupMemoryLimit,
    GroupMemoryReservation,
)
from labkit.settings.egress import Link
from labkit.settings.guest_size import GuestMemory
from labkit.settings.memory import TransparentHugePages
from labkit.settings.mtu import Mtu
from labkit.settings.power import IdleStates
from labkit.settings.processes import ServiceRunning
from labkit.settings.sockets import SocketBuffers, Sysctl
from labkit.settings.storage import CacheBudget

PROGRAMS = ("ip", "mount", "ping", "tc", "umount")

pytestmark = pytest.mark.box

OWN = [
    GuestMemory("guest", 160),
    Mtu(1400, role="client"),
    Link(50, role="client"),
    SocketBuffers("send", 4096, 20000, 3000000, role="server"),
    Sysctl("net.core.somaxconn", "1234", role="client"),
]
MACHINES = [
    BootOptions(("nohz=off",)), ServiceRunning("cron"), TransparentHugePages("always"),
    IdleStates(0), CacheBudget(7, role="client"),
]  # fmt: skip


RATE = ("rate", "1mbit", "burst", "32kb", "latency", "50ms")
GROUPED = """\
mount -t cgroup2 cgroup2 /sys/fs/cgroup && cd /sys/fs/cgroup &&
echo '+cpu +memory' > cgroup.subtree_control && mkdir labkit"""


@pytest.mark.parametrize("setting", OWN, ids=lambda one: f"{type(one).__name__}-{one.role}")
def test_a_setting_of_a_host_is_made_and_put_back(lab, setting):
    before = texts(lab.hosts, [setting])
    with applied([setting], lab.hosts):
        (step,) = plan([setting], lab.hosts).steps
        assert step.why == "" and step.current == setting.wanted
    assert texts(lab.hosts, [setting]) == before


@pytest.mark.parametrize("setting", MACHINES, ids=lambda one: f"{type(one).__name__}-{one.role}")
def test_what_all_hosts_of_a_box_share_is_no_setting_of_one_of_them(lab, setting):
    with (
        pytest.raises(Impossible, match=r"all hosts of the box share|the machine's"),
        applied([setting], lab.hosts),
    ):
        pytest.fail("the body must not run")


@pytest.fixture
def group(lab):
    """A control group of version 2, which the guest's own kernel makes."""
    guest = lab.host("guest")
    guest.check("sh", "-c", GROUPED)
    yield "labkit"
    guest.check("sh", "-c", "rmdir /sys/fs/cgroup/labkit && umount /sys/fs/cgroup")


def test_the_guest_has_a_kernel_of_its_own_with_control_groups_of_version_2(lab, group):
    asked = [
        GroupCpuLimit(group, 0.5, role="guest"), GroupCpuWeight(group, 400, role="guest"),
        GroupMemoryLimit(group, 64, role="guest"), GroupMemoryReservation(group, 16, role="guest"),
        CacheBudget(7, role="guest"),
    ]  # fmt: skip
    other = GroupCpuShares(group, 2048, role="guest")
    *steps, lacking = plan([*asked, other], lab.hosts).steps
    before = texts(lab.hosts, asked)
    assert [step.text for step in steps[:4]] == ["max 100000\n", "100\n", "max\n", "0\n"]
    assert "no control group with such a file" in lacking.why
    with applied(asked, lab.hosts):
        now = {step.thing: step.current for step in plan(asked, lab.hosts).steps}
        assert now == {one.thing: one.wanted for one in asked}
    assert texts(lab.hosts, asked) == before


def test_a_kernel_without_a_kind_of_queue_says_so_in_the_plan(lab):
    if lab.host("guest").run("tc", "qdisc", "add", "dev", "lo", "root", "tbf", *RATE).ok:
        lab.host("guest").check("tc", "qdisc", "delete", "dev", "lo", "root")
        pytest.skip("the guest's kernel has that queue")
    (step,) = plan([Link(50, role="guest")], lab.hosts).steps
    assert "qdisc kind is unknown" in step.why


def rename(host, old, new):
    for words in ((old, "down"), (old, "name", new), (new, "up")):
        host.check("ip", "link", "set", *words)


def test_a_card_that_gets_another_name_is_found_again_and_put_back(lab):
    guest = lab.host("guest")
    settings = [Mtu(1400, role="guest")]
    before = texts(lab.hosts, settings)
    with applied(settings, lab.hosts):
        rename(guest, "vec1", "spare0")
    assert guest.check("cat", "/sys/class/net/spare0/mtu") == "1500\n"
    rename(guest, "spare0", "vec1")
    assert texts(lab.hosts, settings) == before


def test_an_interface_of_software_is_its_name_and_gone_with_it(lab):
    client = replace(lab.host("client"), interface="spare0")
    client.check("ip", "link", "add", "spare0", "type", "veth", "peer", "name", "spare1")
    try:
        gone = r"(?s)'1500' is not put back: .*spare0"
        with (
            pytest.raises(SettingRefused, match=gone),
            applied([Mtu(1400, role="client")], {"client": client}),
        ):
            rename(client, "spare0", "spare2")
        rename(client, "spare2", "spare0")
        assert restore(client).ok
        assert client.check("cat", "/sys/class/net/spare0/mtu") == "1500\n"
    finally:
        client.check("ip", "link", "delete", "spare1")


def test_a_slower_link_is_slower(lab):
    client, server = lab.host("client"), lab.host("server")
    words = ("ping", "-c", "1", "-q", server.address)
    client.check(*words)
    count, size = 40, 1400
    burst = ("ping", "-q", "-c", str(count), "-i", "0.002", "-s", str(size), server.address)
    with applied([Link(1, role="client")], lab.hosts):
        slow = client.check(*burst)
    fast = client.check(*burst)

    def longest(said):
        return float(said.rsplit("=", 1)[1].split("/")[2])

    assert longest(slow) > longest(fast)
