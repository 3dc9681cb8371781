"""The doctor: what it says of this machine, and of machines that lack something."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, replace

import pytest

from labkit.box import needs
from labkit.box import this_machine as doctor
from labkit.box.guests import kernel, kvm
from labkit.box.rootless import sudo, user_namespace

PROGRAMS = ("setpriv", "sudo")


def absent(monkeypatch, *programs):
    found = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda word, **more: None if word in programs else found(word, **more)
    )


def check(report, name):
    return next(check for check in report.checks if check.name == name)


def test_the_report_is_json_with_the_documented_keys():
    report = json.loads(json.dumps(asdict(doctor.examine())))
    assert report["tier"] in doctor.TIERS
    assert {"system", "kernel", "cpus", "memory_mib", "python", "kvm"} <= report["machine"].keys()
    for check in report["checks"]:
        assert check.keys() == {"name", "ok", "found", "brings", "fix"}
        assert check["brings"] and check["found"]
        assert bool(check["fix"]) != check["ok"], (
            "one command for what is missing, none for the rest"
        )


def test_it_says_the_tier_first_and_then_what_to_type():
    report = doctor.examine()
    first, second, *_ = doctor.render(report).splitlines()
    assert first.split()[:2] == ["tier", f"{report.tier}:"]
    assert second.split(maxsplit=1) == ["next", report.next]


def test_it_ends_with_what_is_ready_and_what_brings_more(monkeypatch):
    assert doctor.ready(doctor.examine()).startswith("ready: recorded runs, hosts of your own")
    absent(monkeypatch, "sshd")
    report = doctor.examine()
    ends = f"ready: recorded runs, hosts of your own; to do more: {report.next}"
    assert doctor.ready(report) == ends
    assert doctor.ready(replace(report, checks=(), tier="root")).endswith("any lab in a box")


def test_a_missing_program_lowers_the_tier_and_is_named_with_its_package(monkeypatch):
    absent(monkeypatch, "linux.uml", "ethtool")
    report = doctor.examine()
    assert report.tier == "recorded"
    assert check(report, "guest").found == "missing linux.uml"
    assert {"ethtool", "user-mode-linux"} <= set(doctor.packages())
    assert "a virtual machine without KVM" in doctor.render(report)


def test_the_fix_is_the_set_up_which_starts_no_public_ssh_server(monkeypatch):
    absent(monkeypatch, "sshd")
    report = doctor.examine()
    assert (check(report, "sshd").fix, report.next) == ("make system", "make system")


def test_ubuntu_has_no_package_with_the_guest(monkeypatch):
    absent(monkeypatch, "linux.uml")
    monkeypatch.setattr(doctor, "_os_release", lambda: {"ID": "ubuntu", "NAME": "Ubuntu"})
    report = doctor.examine()
    assert "use Debian" in check(report, "guest").fix
    assert report.tier == doctor.examine().tier
    assert "user-mode-linux" not in doctor.packages()


@pytest.mark.skipif(os.geteuid() != 0, reason="the tier of a plain user is another")
def test_without_the_guest_there_still_is_a_box(monkeypatch):
    absent(monkeypatch, "linux.uml")
    assert doctor.examine().tier == "root"


def test_elsewhere_it_names_the_programs(monkeypatch):
    absent(monkeypatch, "sshd", "apt-get")
    assert check(doctor.examine(), "sshd").fix == "install sshd (Debian's package openssh-server)"


def test_a_plain_user_has_recorded_runs_and_hosts_of_his_own(monkeypatch):
    monkeypatch.setattr(needs.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sudo, "works", lambda: False)
    monkeypatch.setattr(doctor.user_namespace, "lacking", lambda: ("no range", "usermod"))
    report = doctor.examine()
    assert (report.tier, report.lacks) == ("recorded", doctor.LACKS["recorded"])
    assert (check(report, "rootless").found, check(report, "rootless").fix) == (
        "no range", "usermod",
    )  # fmt: skip
    monkeypatch.setattr(doctor.user_namespace, "lacking", lambda: ("", ""))
    better = doctor.examine()
    assert (better.tier, better.next) == ("rootless", "make demo")
    assert "lacks" in doctor.render(better)
    assert check(report, "root").fix in ("sudo -v && make demo", "as root: make demo")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as somebody else")
def test_where_only_root_may_make_network_cards_a_box_without_root_is_not_promised(
    monkeypatch, tmp_path
):
    device = tmp_path / "tun"
    device.touch(mode=0o600)
    monkeypatch.setattr(user_namespace, "TUN", device)
    os.setreuid(65534, 0)
    try:
        why, how = user_namespace.network_cards()
    finally:
        os.setreuid(0, 0)
    assert "you may not use" in why and how == f"sudo chmod 666 {device}"
    assert user_namespace.network_cards() == ("", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may be refused namespaces")
def test_root_without_the_right_to_make_namespaces_is_told_so(monkeypatch):
    asked = subprocess.run
    words = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    monkeypatch.setattr(
        doctor.subprocess, "run", lambda asked_for, **more: asked([*words, *asked_for], **more)
    )
    report = doctor.examine()
    assert report.tier == "recorded"
    assert "unshare" in check(report, "isolation").found


def test_docker_is_one_of_two_engines_and_no_tier_hangs_on_it(monkeypatch):
    tier = doctor.examine().tier
    absent(monkeypatch, "dockerd")
    report = doctor.examine()
    assert (report.tier, report.next) == (tier, doctor.examine().next)
    found = check(report, "docker")
    assert found.found.startswith("missing dockerd") and found.fix.endswith(" docker.io iptables")


def test_kvm_is_never_believed_by_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(kvm, "DEVICE", tmp_path / "kvm")
    assert doctor.examine().machine["kvm"] == f"no {tmp_path}/kvm"
    (tmp_path / "kvm").touch(0o600)
    assert check(doctor.examine(), "kvm").fix == "sudo chmod 666 /dev/kvm"
    (tmp_path / "kvm").chmod(0o666)
    monkeypatch.setattr(kernel, "cache", lambda: tmp_path)
    report = doctor.examine()
    assert report.machine["kvm"] == kvm.NO_TRIAL and report.next == doctor.DEMO
    kvm.answers().write_text(f"{kvm.BOOT.read_text().strip()} KVM: entry failed")
    found = check(doctor.examine(), "kvm")
    assert not found.ok and found.found.endswith("opens and boots no guest: KVM: entry failed")


@pytest.mark.slow
def test_it_is_quick_and_writes_nothing(tmp_path):
    begun = time.process_time()
    doctor.examine()
    assert time.process_time() - begun < 0.2
    subprocess.run([sys.executable, "-m", "labkit", "doctor"], cwd=tmp_path, check=True)
    assert list(tmp_path.iterdir()) == []
