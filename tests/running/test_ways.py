"""A lab of hosts of one's own is refused at once where nothing could come of a run on it."""

import socket
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
from lab_toml import lab_toml, reached_at, table
from sshd import serving

from labkit import studies
from labkit.check import Subject
from labkit.checks import conditions
from labkit.errors import BadInput, Unreachable, absence
from labkit.lab import opened
from labkit.running import possible
from labkit.running.open_lab import study_results
from labkit.running.possible import Ways
from labkit.settings.mtu import Mtu

PROGRAMS = ("ping",)
pytestmark = pytest.mark.slow
PING = studies.find("lat_ping")


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch, own_out):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def lab_of(folder, sshd, ports=(), head="", **more):
    """Client and server are this machine, or wherever the ports lead."""
    client, server = ports or (sshd.port, sshd.port)
    (folder / "ssh_config").write_text("Host *\n  ConnectTimeout 2\n")
    at = {**reached_at(sshd.address()), "interface": "lo"}
    return lab_toml(
        folder / "lab.toml", head, table("client", **at | {"port": client}),
        table("server", **at | {"port": server} | more),
        known_hosts=sshd.folder / "known_hosts", ssh_config="ssh_config",
    )  # fmt: skip


@contextmanager
def silent():
    """A port that answers no request for a connection, for its queue of them is full."""
    with ExitStack() as held:
        listener = held.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            full = held.enter_context(socket.socket())
            full.setblocking(False)
            full.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def begin(file, study=PING):
    with opened(file) as lab:
        return study_results(study, lab, str(file))


def test_a_host_that_is_silent_is_named_in_the_seconds_that_ssh_is_given(sshd, tmp_path):
    with silent() as port:
        file, begun = lab_of(tmp_path, sshd, (sshd.port, port)), time.monotonic()
        with pytest.raises(Unreachable, match="server: cannot reach") as error:
            begin(file)
    assert time.monotonic() - begun < 5
    assert error.value.said == "no answer within 2 s"


def test_hosts_that_are_silent_are_named_together_in_the_time_of_one(sshd, tmp_path):
    with silent() as one, silent() as other:
        file, begun = lab_of(tmp_path, sshd, (one, other)), time.monotonic()
        with pytest.raises(Unreachable, match="2 of 2 hosts failed: client, server"):
            begin(file)
    assert time.monotonic() - begun < 5


def test_an_address_that_nobody_has_leaves_the_study_out_in_seconds(sshd, tmp_path):
    file, begun = lab_of(tmp_path, sshd, address="198.51.100.7"), time.monotonic()
    with pytest.raises(BadInput) as error:
        begin(file)
    assert time.monotonic() - begun < 10
    said = str(error.value)
    assert "Native: client gets no answer from 198.51.100.7, the address of server" in said
    assert f"labkit doctor --lab {file}" in said


def test_an_interface_that_is_not_there_is_refused_before_anything_is_kept(sshd, tmp_path):
    file = lab_of(tmp_path, sshd)
    file.write_text(file.read_text().replace('"lo"', '"eth7x"', 1))
    with pytest.raises(BadInput, match="client has no interface eth7x") as error:
        begin(file)
    assert "lo" in error.value.said and "[hosts.client]" in error.value.hint
    assert not (tmp_path / "out" / "results").exists()


def test_an_address_that_is_not_on_the_interface_is_kept_and_said_of_the_results(sshd, tmp_path):
    with opened(lab_of(tmp_path, sshd, address="127.0.0.2")) as lab:
        asked = study_results(PING, lab, str(lab.path)).asked
    assert asked["lab"]["elsewhere"] == {"server": "127.0.0.2"}


def test_hosts_that_answer_are_refused_nothing(sshd, tmp_path):
    with opened(lab_of(tmp_path, sshd)) as lab:
        assert "Native" not in possible.refusals(PING, lab)


def test_a_filtered_echo_keeps_no_other_traffic_out(sshd, tmp_path, monkeypatch):
    """Only a way that is known to lead to nobody refuses what does not ping."""
    netperf = studies.find("lat_netperf")
    for said, why in (("1 packets transmitted, 0 received", ""), ("Host Unreachable", "no answer")):
        monkeypatch.setattr("labkit.running.possible.PING", ("sh", "-c", f"echo '{said}'; exit 1"))
        with opened(lab_of(tmp_path, sshd, address="127.0.0.2")) as lab:
            pair = {"client": lab.host("client"), "server": lab.host("server")}
            told = Ways(lab).refusal(netperf.workload, [pair])
            assert bool(told) == bool(why) and why in told


def test_a_word_that_is_neither_role_nor_host_is_a_wrong_command_line(sshd, tmp_path, typed):
    file = lab_of(tmp_path, sshd)
    assert "roles of this lab: client, server" in typed(
        "trust", "nobody.invalid", "--lab", file, code=2
    )


def test_settings_of_a_host_fit_a_page_of_eighty_columns(sshd, tmp_path, typed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = typed("settings", "server", "--lab", lab_of(tmp_path, sshd)).splitlines()
    assert any(line.startswith("Mtu") for line in lines)
    assert [line for line in lines if len(line) > 80] == []


def test_what_a_condition_lacks_is_mended_by_what_brings_it(sshd, tmp_path):
    with opened(lab_of(tmp_path, sshd)) as lab:
        place, native = Subject(lab, ("client", "server")), PING.condition("Native")
        lacks = absence("sockperf", "client", "labkit prepare lat_ping")
        found = conditions._obstacle(place, PING, native, lacks)
    assert lacks == "sockperf is missing on client, to get it: labkit prepare lat_ping"
    assert found["reason"] == "sockperf is missing on client"
    assert found["fix"] == "labkit prepare lat_ping"


@pytest.mark.parametrize("head", ["", '[box]\ntier = "root"\n'])
def test_an_edited_condition_is_another_question_in_a_box_too(sshd, tmp_path, head):
    file, (first, *others) = lab_of(tmp_path, sshd, head=head), PING.conditions
    mtu = (Mtu(1400, role="client"),)
    edits = [
        {}, {}, {"optional": mtu}, {"optional": (Mtu(1401, role="client"),)},
        {"indifferent": mtu}, {"roles": {"server": "client"}}, {"knobs": {"size": 99}},
    ]  # fmt: skip
    asked = [replace(PING, conditions=(replace(first, **edit), *others)) for edit in edits]
    assert len({begin(file, study).path for study in asked}) == len(edits) - 1
    made = replace(first, settings=mtu), replace(first, settings=(Mtu(1401, role="client"),))
    one, other = (replace(PING, conditions=(edited, *others)).asked("x", 1) for edited in made)
    assert one != other
