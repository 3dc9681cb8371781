"""Power of hosts of one's own: nobody's is taken that the lab file does not name."""

import os
from dataclasses import replace

import pytest
import worlds

from labkit.errors import BadInput, HostError, Unknown
from labkit.events import _power
from labkit.events.host_failure import HostFailure
from labkit.host import Host
from labkit.lab import Lab
from labkit.transports.local import Local

PROGRAMS = ("ping", "virsh")
HOSTS = '[hosts.client]\ncontrol = "192.0.2.1"\n[hosts.server]\ncontrol = "192.0.2.2"\n'
VIRSH = {"by": "virsh", "on": "client", "vm": "lab"}
IPMI = {"by": "ipmi", "on": "client", "board": "192.0.2.9", "user": "operator",
        "password_file": "/root/board"}  # fmt: skip
# What each prints where it works; the words are noted.
STAND_IN = (
    '#!/bin/sh\necho "${0##*/} $*" >> "${0%/*}/words"\necho "Chassis Power Control: Down/Off"\n'
)


def lab_file(tmp_path, power):
    lines = [f'{key} = "{value}"' for key, value in power.items()]
    file = tmp_path / "lab.toml"
    file.write_text(HOSTS + "[power.server]\n" + "\n".join(lines))
    return file


def here(power):
    hosts = {role: Host(role, "127.0.0.1", Local(role)) for role in ("client", "server")}
    return Lab("own", hosts, power={"server": power})


@pytest.fixture
def tools(tmp_path, monkeypatch):
    for name in ("ipmitool", "esxcli"):
        (tmp_path / name).write_text(STAND_IN)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "words"


@pytest.mark.parametrize("power", [VIRSH, IPMI, {"by": "esxcli"}])
def test_a_lab_file_names_the_host_whose_power_may_be_taken_and_how(tmp_path, power):
    lab = Lab.read(lab_file(tmp_path, power))
    assert lab.power == {"server": power}
    assert HostFailure().refusal(lab) == ""
    assert "no [power.client]" in _power.refusal(lab, "client")


@pytest.mark.parametrize("power, error, said", [
    ({"by": "axe"}, Unknown, "axe"), ({**VIRSH, "on": "nobody"}, Unknown, "nobody"),
    ({"by": "virsh", "on": "client"}, BadInput, "needs vm"),
    ({**VIRSH, "board": "x"}, Unknown, "board"), ({**IPMI, "user": "-x"}, BadInput, "needs user"),
])  # fmt: skip
def test_what_does_not_say_how_is_refused_before_anything_is_asked(tmp_path, power, error, said):
    with pytest.raises(error, match=said):
        Lab.read(lab_file(tmp_path, power))


def test_without_its_name_no_host_loses_its_power(tools):
    lab = replace(here(VIRSH), power={})
    assert "labkit takes no power" in HostFailure().refusal(lab)
    with pytest.raises(HostError, match="labkit takes no power"):
        _power.off(lab, "server")
    assert not tools.exists()


def test_a_management_board_is_told_by_ipmitool_with_its_password_in_a_file(tools):
    """A stand-in of ipmitool notes the words; there is no board here."""
    _power.off(here(IPMI), "server")
    _power.on(here(IPMI), "server", 5)
    asked = "ipmitool -I lanplus -H 192.0.2.9 -U operator -f /root/board chassis power"
    assert tools.read_text().splitlines() == [f"{asked} off", f"{asked} on"]


def test_esxi_ends_by_its_own_command_and_is_switched_on_by_hand(tools):
    """A stand-in of esxcli notes the words."""
    lab = here({"by": "esxcli"})
    _power.off(lab, "server")
    asked = "esxcli system shutdown poweroff -d 10 -r labkit: host_failure"
    assert tools.read_text() == f"{asked}\n"
    with pytest.raises(HostError, match="nothing switches server on again after esxcli"):
        _power.on(lab, "server", 1)


def test_a_tool_that_fails_is_named_with_its_words(tools):
    text = "#!/bin/sh\necho unable to establish session >&2; exit 1\n"
    (tools.parent / "ipmitool").write_text(text)
    with pytest.raises(HostError) as error:
        _power.off(here(IPMI), "server")
    assert "unable to establish session" in str(error.value.said)


@pytest.mark.slow
def test_a_machine_of_a_real_libvirt_is_gone_and_comes_back(tmp_path):
    with worlds.kvm(tmp_path) as host:
        lab = replace(here(VIRSH), hosts={"client": host, "server": here(VIRSH).host("server")})
        _power.off(lab, "server")
        assert host.check("virsh", "domstate", "lab").strip() == "shut off"
        _power.on(lab, "server", 5)
        assert host.check("virsh", "domstate", "lab").strip() == "running"
