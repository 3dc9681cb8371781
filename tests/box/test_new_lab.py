"""The file of a lab, written from addresses: two hosts of a box as if they were remote."""

import os
import re
from dataclasses import replace

import pytest
from boxes import NAME
from leftovers import another

from labkit.errors import BadInput
from labkit.lab import LOCAL_LAB, Lab
from labkit.running import new_lab
from labkit.running.new_lab import NewHost

PROGRAMS = ("ip",)


def test_a_word_names_role_user_address_and_port(tmp_path):
    assert NewHost.of("client=me@192.0.2.1:2222") == NewHost("client", "192.0.2.1", "me", 2222)
    for wrong in ("client", "=192.0.2.1", "client=", "client=a b", "Client=192.0.2.1"):
        with pytest.raises(BadInput, match="is not ROLE="):
            NewHost.of(wrong)
    file = tmp_path / "lab.toml"
    with pytest.raises(BadInput, match="two hosts have the role client"):
        new_lab.write(file, [NewHost.of("client=192.0.2.1"), NewHost.of("client=192.0.2.2")])
    new_lab.write(file, [NewHost.of("client=192.0.2.1"), NewHost.of("server=me@192.0.2.2")])
    assert Lab.read(file).host("server").transport.at.user == "me"
    with pytest.raises(BadInput, match="is there already"):
        new_lab.write(file, [])


def test_without_hosts_and_a_terminal_it_says_how_to_name_them(labkit, tmp_path):
    done = labkit("new", "lab", str(tmp_path / "lab.toml"))
    assert done.returncode == 2 and "labkit new lab lab.toml client=" in done.stderr
    assert not list(tmp_path.glob("lab.toml"))


@pytest.mark.box
@pytest.mark.slow
def test_a_lab_is_written_trusted_filled_in_and_looked_over(labkit, tmp_path):
    with another(f"{NAME}-7", "pair") as lab:
        at = {role: lab.host(role).transport.at for role in ("client", "server")}
        words = [f"{role}=root@{one.control}" for role, one in at.items()]
        words += ["--key", str(at["client"].key)]
        file = tmp_path / "lab.toml"
        first = labkit("new", "lab", str(file), *words)
        assert first.returncode == 1 and "--yes FINGERPRINT" in first.stderr
        for role in at:
            shown = labkit("trust", role, "--lab", str(file), "--json")
            key = re.search(r"SHA256:[A-Za-z0-9+/=]+", shown.stdout + shown.stderr)[0]
            words += ["--yes", key]
        done = labkit("new", "lab", str(file), *words)
        assert done.returncode == 0, done.stdout + done.stderr
        again = labkit("new", "lab", str(file), *words)
        assert again.returncode == 2 and "is there already" in again.stderr, "it has links now"
        made = Lab.read(file)
        for role in at:
            shown = made.host(role).check("ip", "-o", "addr", "show", made.host(role).interface)
            assert made.host(role).address in shown
        assert "root may log in" in done.stdout
        assert "test traffic goes by control0" in done.stdout and "use data0" in done.stdout


# Documented output of virsh 9: there is no libvirt in a box whose guests have leases.
VIRSH = """#!/bin/sh
case "$*" in
    *"list --name") printf 'web\\ndb\\nsilent\\n\\n' ;;
    *"domifaddr web --source lease") cat <<'END'
 Name       MAC address          Protocol     Address
-------------------------------------------------------------------------------
 vnet0      52:54:00:00:00:01    ipv4         192.0.2.21/24

END
    ;;
    *"domifaddr db --source agent") echo " lo 00:00:00:00:00:00 ipv4 192.0.2.22/24" ;;
    *) exit 1 ;;
esac
"""


def test_guests_of_libvirt_get_roles_that_are_free(tmp_path, monkeypatch):
    (tmp_path / "virsh").write_text(VIRSH)
    (tmp_path / "virsh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    lab = Lab.read(LOCAL_LAB)
    hosts = [NewHost("server", "192.0.2.2", "root"), NewHost("guest", "192.0.2.21")]
    complete = new_lab.complete(
        replace(lab, hosts={**lab.hosts, "guest": lab.host("server")}), hosts
    )
    assert complete[2:] == [NewHost("guest2", "192.0.2.22", "root")]
