"""Network I/O Control of a distributed switch, by vCenter's API; what answers is a simulator.

govmomi's simulator keeps what a switch is made with. Of a later change it keeps an event alone.
"""

import sys

import pytest
from simulator import certified, simulating

from labkit.changes.in_force import applied
from labkit.errors import BadInput, HostError, Impossible, SettingRefused, Unknown
from labkit.fleet.vcenter import connected, named
from labkit.host import Host
from labkit.settings import switch as settings
from labkit.settings.switch import SwitchShares, SwitchTraffic
from labkit.transports.local import Local
from labkit.transports.ssh import Ssh

WANTED = (SwitchTraffic("vmotion", 75, 0, 60), SwitchTraffic("nfs", 1, 150))
TEXT = "nfs: 1 shares, 150 to any Mbit/s; vmotion: 75 shares, 0 to 60 Mbit/s"
BEFORE = "nfs: 50 shares, 0 to any Mbit/s; vmotion: 50 shares, 0 to any Mbit/s"


@pytest.fixture(scope="module")
def vim():
    return pytest.importorskip("pyVmomi", reason="pip install pyvmomi").vim


@pytest.fixture(scope="module")
def trusted(tmp_path_factory):
    return certified(tmp_path_factory.mktemp("vcenter"))


@pytest.fixture(scope="module")
def port(trusted, tmp_path_factory):
    with simulating(trusted, tmp_path_factory.mktemp("vcsim"), "-vm", "0") as port:
        yield port


@pytest.fixture
def session(vim, port, trusted):
    with connected("127.0.0.1", "user", "pass", port=port, authority=str(trusted / "cert")) as api:
        yield api


def made(vim, session, name, value):
    """A switch that the simulator is asked to make so."""
    spec = vim.DistributedVirtualSwitch.ConfigSpec(
        name=name, infrastructureTrafficResourceConfig=settings.spec(value)
    )
    folder = session.RetrieveContent().rootFolder.childEntity[0].networkFolder
    folder.CreateDVS_Task(vim.DistributedVirtualSwitch.CreateSpec(configSpec=spec))
    return named(session, vim.DistributedVirtualSwitch, name)


@pytest.mark.slow
def test_what_a_switch_was_made_with_is_what_is_shown(vim, session):
    there = made(vim, session, "shown", TEXT)
    assert settings.shown(there, ["vmotion", "nfs"]) == TEXT == SwitchShares("x", WANTED).wanted
    with pytest.raises(Unknown, match="known: nfs"):
        settings.shown(there, ["vsan"])


@pytest.mark.slow
def test_a_change_is_asked_of_vcenter_in_its_own_words(vim, session):
    """The event has the whole request; a switch that is made with it shows what was wanted."""
    there = made(vim, session, "changed", BEFORE)
    settings.make(there, TEXT)
    asked = vim.event.EventFilterSpec(eventTypeId=["DvsReconfiguredEvent"])
    events = session.RetrieveContent().eventManager.QueryEvents(asked)
    sent = next(event.configSpec for event in events if event.dvs.name == "changed")
    sent.name = "as sent"
    folder = session.RetrieveContent().rootFolder.childEntity[0].networkFolder
    folder.CreateDVS_Task(vim.DistributedVirtualSwitch.CreateSpec(configSpec=sent))
    again = named(session, vim.DistributedVirtualSwitch, "as sent")
    assert settings.shown(again, ["nfs", "vmotion"]) == TEXT


@pytest.mark.slow
def test_a_switch_that_does_not_take_it_is_named_and_stays_as_it_was(
    vim, session, port, trusted, monkeypatch, tmp_path
):
    """The engine, its journal and a program of its own, until the simulator forgets the change."""
    made(vim, session, "engine", BEFORE)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted / "cert"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    program = tmp_path / "asks.py"
    program.write_text(ASKS.format(port=port))
    monkeypatch.setattr(sys, "executable", str(program))
    program.chmod(0o755)
    host = Host("vcenter", "127.0.0.1", Local("vcenter"))
    setting = SwitchShares("engine", WANTED)
    assert host.check(*setting.on_linux(host).reads).strip() == BEFORE
    ignored = pytest.raises(SettingRefused, match="was ignored: wanted 'nfs: 1 shares")
    with ignored, applied([setting], {"vcenter": host}):
        pass


# The same program with the simulator's port and login in place of vCenter's.
ASKS = f"""\
#!{sys.executable}
import sys
from labkit.settings import switch
switch.PORT, switch.USER, switch.kept_password = {{port}}, "user", lambda address: "pass"
switch.main(*sys.argv[3:])
"""


@pytest.mark.parametrize("given, said", [
    (("vmotion", 0), "shares"), (("vmotion", 50, 100, 60), "less than is reserved"),
    (("lunch",), "lunch"),
])  # fmt: skip
def test_shares_that_add_up_to_nothing_and_the_like_are_refused(given, said):
    with pytest.raises((BadInput, Unknown), match=said):
        SwitchTraffic(*given)


@pytest.mark.parametrize("traffic", [(), (SwitchTraffic("nfs"), SwitchTraffic("nfs", 3))])
def test_a_division_needs_kinds_of_traffic_each_once(traffic):
    with pytest.raises(BadInput, match="each once"):
        SwitchShares("switch", traffic)


def test_vcenter_is_asked_from_this_machine_alone():
    host = Host("vcenter", "192.0.2.1", Ssh.__new__(Ssh))
    with pytest.raises(Impossible, match="by its API"):
        SwitchShares("switch", WANTED).on_linux(host)


def test_the_api_of_a_task_that_fails_is_told(vim):
    class Failing:
        name, config = "switch", type("Config", (), {"configVersion": "1"})

        def ReconfigureDvs_Task(self, spec):
            return type("Task", (), {"info": type("Info", (), {"state": "error", "error": "no"})})

    with pytest.raises(HostError, match="did not change"):
        settings.make(Failing(), TEXT)
