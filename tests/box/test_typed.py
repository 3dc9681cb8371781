"""`labkit apply SETTING` on the hosts of a box: made, seen by labkit, put back byte for byte."""

import json

import pytest

from labkit.changes.plan import plan
from labkit.commands._setting import setting_of

pytestmark = pytest.mark.box

TYPED = {
    "server": (
        "Mtu(1400)", "Link(50)", "Offloads(gro=False)", "WindowScaling(False)",
        "SocketBuffers('send', 4096, 20000, 3000000)", "CongestionControl('reno')",
        "Sysctl('net.core.somaxconn', '1234')",
    ),
    "guest": (
        "Mtu(1400)", "CacheBudget(7)", "TransparentHugePages('never')", "GuestMemory('guest', 160)",
    ),
}  # fmt: skip


def texts(lab, settings):
    return {step.thing: (step.text, step.why) for step in plan(settings, lab.hosts).steps}


def possible(lab, role):
    """The typed settings of a role that this machine's kernel has."""
    settings = {text: setting_of(text, role) for text in TYPED[role]}
    steps = {step.setting: step.why for step in plan([*settings.values()], lab.hosts).steps}
    return {text: setting for text, setting in settings.items() if not steps[setting]}


@pytest.mark.parametrize("role", TYPED)
def test_typed_settings_are_made_together_and_restored_byte_for_byte(lab, lab_file, labkit, role):
    settings = possible(lab, role)
    assert len(settings) >= 2
    before = texts(lab, settings.values())
    where = ("--on", role, "--lab", str(lab_file))
    planned = json.loads(labkit("plan", *settings, *where, "--json").stdout)
    states = {step["state"] for step in planned["steps"]}
    assert "possible" in states and states <= {"possible", "in force"}
    assert texts(lab, settings.values()) == before, "a plan touches nothing"
    done = labkit("apply", *settings, *where)
    assert done.returncode == 0, done.stderr
    steps = plan([*settings.values()], lab.hosts).steps
    assert {s.thing: s.current for s in steps} == {s.thing: s.setting.wanted for s in steps}
    assert "labkit restore" in done.stdout
    again = labkit("apply", *settings, *where)
    assert again.returncode == 1 and "unfinished change set" in again.stderr
    assert labkit("restore", "--all", "--lab", str(lab_file)).returncode == 0
    assert texts(lab, settings.values()) == before


def test_a_setting_that_a_host_cannot_have_is_refused_and_the_others_are_not_made(
    lab, lab_file, labkit
):
    before = texts(lab, [setting_of("Mtu(1400)")])
    refused = labkit("apply", "Mtu(1400)", "Turbo(False)", "--on", "server", "--lab", str(lab_file))
    assert refused.returncode == 2 and "the whole machine" in refused.stderr
    unknown = labkit("apply", "Mtu(1400)", "--on", "nobody", "--lab", str(lab_file))
    assert unknown.returncode == 2 and "nobody" in unknown.stderr
    assert texts(lab, [setting_of("Mtu(1400)")]) == before
