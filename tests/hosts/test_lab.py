"""A lab.toml: what it may say, and how what it may not say is answered."""

from dataclasses import replace
from pathlib import Path

import pytest
from IPython.lib.pretty import pretty

from labkit.errors import BadInput, Unknown
from labkit.lab import Lab
from labkit.ssh.address import resolved

EXAMPLE = Path(__file__).parents[2] / "data/labs/example.toml"


def read(folder, text):
    path = folder / "lab.toml"
    path.write_text(text)
    return Lab.read(path)


def test_the_example_is_a_lab_of_real_hosts():
    lab = Lab.read(EXAMPLE)
    assert set(lab.hosts) == {"client", "server", "guest"}
    assert not lab.emulated
    client = lab.host("client")
    assert (client.address, client.interface) == ("10.0.0.10", "eth1")
    at = client.transport.at
    assert (at.control, at.user, at.port) == ("192.0.2.10", "root", 22)
    assert at.key == str(Path("~/.ssh/id_ed25519").expanduser())
    assert at.shared and at.known_hosts == (str(EXAMPLE.with_suffix(".known_hosts")),)


def test_a_cell_that_ends_with_a_lab_names_its_hosts_and_what_runs_its_guests():
    lab = Lab.read(EXAMPLE)
    assert pretty(lab).startswith(f"{lab.name} (real hosts): client, server")
    boxed = replace(lab, tier="root", accelerator="uml")
    assert pretty(boxed).startswith(f"{lab.name} (a box, guests by uml): client, ")


def test_the_smallest_lab_is_one_control_address(tmp_path):
    host = read(tmp_path, '[hosts.client]\ncontrol = "192.0.2.1"').host("client")
    assert (host.name, host.address) == ("client", "192.0.2.1")
    target = resolved(replace(host.transport.at, ssh_config="none"))
    assert str(target) == "root@192.0.2.1 port 22"


def test_a_misspelt_key_is_named_before_the_one_that_it_leaves_missing(tmp_path):
    with pytest.raises(Unknown, match=r"(?s)'contrl'.*control"):
        read(tmp_path, '[hosts.client]\ncontrl = "192.0.2.1"')


@pytest.mark.parametrize(
    "role", ["../../../x", "$(touch x)", "client\\n", "", "1st", "ö", "a" * 41]
)
def test_a_role_is_a_name_as_it_becomes_a_part_of_paths(tmp_path, role):
    with pytest.raises(BadInput, match=r"lab\.toml: \[hosts\..* is no role: it holds letters"):
        read(tmp_path, f'[hosts."{role}"]\ncontrol = "192.0.2.1"')
    assert read(tmp_path, '[hosts.My_guest-2]\ncontrol = "192.0.2.1"').host("My_guest-2")


def test_files_are_looked_for_beside_the_lab_file(tmp_path):
    text = 'known_hosts = "known"\n[hosts.client]\ncontrol = "192.0.2.1"\nkey = "id"'
    at = read(tmp_path, text).host("client").transport.at
    assert at.known_hosts == (str(tmp_path / "known"),)
    assert at.key == str(tmp_path / "id")


def test_sshs_own_files_count_too_unless_the_lab_names_its_own_or_is_a_box(tmp_path):
    host = '[hosts.client]\ncontrol = "192.0.2.1"'
    (tmp_path / "mine").write_text("")
    at = read(tmp_path, host).defaults
    assert (at.ssh_config, at.shared) == ("", True)
    at = read(tmp_path, 'known_hosts = "known"\nssh_config = "mine"\n' + host).defaults
    assert (at.ssh_config, at.shared) == (str(tmp_path / "mine"), False)
    for text in (f'[box]\ntier = "root"\n{host}', f'ssh_config = "none"\n{host}'):
        at = read(tmp_path, text).defaults
        assert (at.ssh_config, at.shared) == ("none", False)
        assert "~/.ssh/known_hosts" in at.known_hosts


@pytest.mark.parametrize("written", ["::1", "[::1]"])
def test_an_address_of_ipv6_may_stand_in_brackets(tmp_path, written):
    at = read(tmp_path, f'[hosts.client]\ncontrol = "{written}"\nport = 2222').host("client")
    assert at.transport.at.control == at.address == "::1"
    assert resolved(at.transport.at).known_as.first == "[::1]:2222"


def test_the_box_says_what_it_is_made_of(tmp_path):
    text = '[box]\ntier = "root"\naccelerator = "uml"\n[hosts.client]\ncontrol = "192.0.2.1"'
    lab = read(tmp_path, text)
    assert (lab.tier, lab.accelerator, lab.emulated) == ("root", "uml", True)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "no hosts"),
        ("hosts = 3", "no hosts"),
        ("[hosts", "cannot be read as TOML"),
        ('host = "x"', "'host'"),
        ("[hosts.client]", "control"),
        ("[hosts]\nclient = 3", "hosts.client"),
        ('[hosts.client]\ncontrol = "a"\nuesr = "root"', "did you mean 'user'"),
        ('[hosts.client]\ncontrol = "a"\nport = 0', "1 to 65535, not 0"),
        ('[hosts.client]\ncontrol = "a"\nport = "22"', "not '22'"),
        ('[hosts.client]\ncontrol = "a"\nport = true', "not True"),
        ('[hosts.client]\ncontrol = "-oProxyCommand=x"', "control must be text"),
        ('[hosts.client]\ncontrol = ""', "control"),
        ('[hosts.client]\ncontrol = "root@a"', "control must be an address"),
        ('[hosts.client]\ncontrol = "[::1]:22"', "control must be an address"),
        ('[hosts.client]\ncontrol = "a\\nb"', "control must be text"),
        ('[hosts.client]\ncontrol = "a"\njump = "-x"', "jump must be text"),
        ('[hosts.client]\ncontrol = "a"\njump = 3', "jump must be text"),
        ('ssh_config = 3\n[hosts.client]\ncontrol = "a"', "ssh_config must be"),
        ('ssh_config = "absent"\n[hosts.client]\ncontrol = "a"', "which ssh_config = names"),
        ('[hosts.client]\ncontrol = "a"\naddress = "-f"', "address must be text"),
        ('known_hosts = 3\n[hosts.client]\ncontrol = "a"', "known_hosts must be"),
        ('[box]\ntire = "root"\n[hosts.client]\ncontrol = "a"', "did you mean 'tier'"),
        ('box = 3\n[hosts.client]\ncontrol = "a"', "box"),
        ('[box]\ntier = 3\n[hosts.client]\ncontrol = "a"', "tier"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(tmp_path, text, named):
    with pytest.raises(BadInput) as error:
        read(tmp_path, text)
    assert named in str(error.value)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "lab.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="cannot be read as TOML"):
        Lab.read(tmp_path / "lab.toml")


def test_a_missing_file_is_named_and_an_example_shown(tmp_path):
    with pytest.raises(BadInput, match=r"no lab file .*absent\.toml") as error:
        Lab.read(tmp_path / "absent.toml")
    assert "example.toml" in error.value.hint


def test_an_unknown_role_lists_the_known_ones():
    with pytest.raises(Unknown, match="unknown role 'sever'; known: client, guest, server"):
        Lab.read(EXAMPLE).host("sever")
