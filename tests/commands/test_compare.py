"""`labkit compare` decides between two commands, settings or hosts, and leaves nothing changed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.commands.compare import words_of
from labkit.errors import BadInput
from labkit.lab import LOCAL_LAB, Lab
from labkit.running import control_runs
from labkit.transports.local import Local

pytestmark = pytest.mark.slow


def labkit(*words, cwd):
    env = {**os.environ, "LABKIT_OUT": str(cwd / "out"), "COLUMNS": "80"}
    words = (sys.executable, "-m", "labkit", *words)
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True)


def compared(*words, cwd):
    done = labkit("compare", "--json", *words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_line_is_read_by_a_shell_only_where_it_needs_one():
    assert words_of(["gzip", "-1", "a b"]) == ("gzip", "-1", "a b")
    assert words_of(["gzip -1 'a b'"]) == ("gzip", "-1", "a b")
    for line in ("sort f | uniq", "LANG=C sort f", "sort *"):
        assert words_of([line]) == ("sh", "-c", line)
    for wrong in (["gzip 'a"], [" "]):
        with pytest.raises(BadInput):
            words_of(wrong)


def test_the_faster_command_is_named_and_its_results_can_be_judged_again(tmp_path):
    found = compared("sleep 0.04", "sleep 0.01", "--label", "one", cwd=tmp_path)
    assert found["lower"] == "B" and found["decided"] and found["blocks"] >= 3
    assert found["figures"]["A"]["value"] > 0.04 > found["figures"]["B"]["value"] > 0.01
    assert found["finding"].startswith("B is faster: A / B = ")
    page = Path(found["page"]).read_text()
    assert "B is faster" in page and "<svg" in page and "<script" not in page
    assert labkit("results", "verify", found["results"], cwd=tmp_path).returncode == 0
    again = labkit("report", found["results"], cwd=tmp_path)
    assert found["finding"] in " ".join(again.stdout.split())
    assert max(map(len, again.stdout.partition("results  ")[0].splitlines())) <= 80


METRIC = ("--metric", r"qps: ([\d.]+)", "--unit", "1/s", "--blocks", "4")
OUTCOMES = {("100", "130"): "A", ("130", "100"): "B", ("100", "100"): ""}


@pytest.mark.parametrize("figures", OUTCOMES, ids="-".join)
def test_a_figure_that_is_printed_is_compared_and_equal_ones_are_neither(figures, tmp_path):
    found = compared(*METRIC, *(f"echo qps: {n}" for n in figures), cwd=tmp_path)
    assert found["lower"] == OUTCOMES[figures] and found["unit"] == "1/s"
    assert found["figures"]["A"]["value"] == float(figures[0])


REFUSED = {
    ("sleep 0.01", "no-such-program"): "is `no-such-program` installed",
    ("true", "false"): "`false` ended with code 1",
    ("true", "true", "--metric", "qps: (.*)"): "finds nothing in the output",
    ("true", "true", "--metric", "("): "is no regular expression",
    ("echo a", "echo b", "--metric", "(.*)"): "which is not a number",
    ("true", "true", "--unit", "ms"): "--unit is of a --metric",
    ("true", "true", "--prepare", "false"): "it was not prepared: false",
    ("true",): "A and B are the same: true",
    ("true", "--b", "Mtu(9000)", "--on", "nobody"): "unknown role 'nobody'",
    (): "which command?",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_cannot_be_compared_is_named_and_nothing_is_kept(words, tmp_path):
    done = labkit("compare", *words, cwd=tmp_path)
    assert done.returncode in (1, 2) and REFUSED[words] in done.stderr, done.stderr
    assert not (tmp_path / "out/results").exists()


@pytest.mark.box
def test_a_setting_is_in_force_on_its_side_alone_and_is_put_back(lab_file, tmp_path):
    lab = Lab.read(lab_file)
    file = f"/sys/class/net/{lab.host('server').interface}/mtu"
    before = lab.host("server").check("cat", file)
    found = compared(
        "--lab", str(lab_file), "--b", "Mtu(1300)", "--metric", r"\d+", "--blocks", "4",
        "--", "cat", file, cwd=tmp_path,
    )  # fmt: skip
    assert found["lower"] == "B", found["finding"]
    assert found["figures"]["B"]["value"] == 1300
    assert found["figures"]["A"]["value"] == float(before)
    assert lab.host("server").check("cat", file) == before
    assert found["sides"]["B"]["shown"] == "Mtu = 1300"


@pytest.mark.box
def test_one_command_is_compared_on_two_hosts(lab_file, tmp_path):
    lab = Lab.read(lab_file)
    script = "hostname -I | tr -cd 0-9 | tail -c 1"
    found = compared(
        "--lab", str(lab_file), "--on-a", "client", "--on-b", "server", "--blocks", "3",
        "--metric", r"\d+", "--", "sh", "-c", script, cwd=tmp_path,
    )  # fmt: skip
    ends = {role: lab.host(role).check("sh", "-c", script) for role in ("client", "server")}
    assert [found["figures"][side]["value"] for side in "AB"] == [float(e) for e in ends.values()]


def test_this_machine_is_a_lab_of_one_host_without_an_sshd(tmp_path):
    host = Lab.read(LOCAL_LAB).host("server")
    assert isinstance(host.transport, Local) and host.check("echo", "here") == "here\n"
    looked = labkit("doctor", "--lab", "local", cwd=tmp_path)
    assert "it is this machine" in looked.stdout and "SSH server answers" not in looked.stdout
    trusted = labkit("trust", "server", "--lab", str(LOCAL_LAB), cwd=tmp_path)
    assert trusted.returncode == 2 and "there is no key to trust" in trusted.stderr


def test_a_local_host_has_no_keys_of_ssh_and_may_stand_beside_others(tmp_path):
    file = tmp_path / "lab.toml"
    file.write_text('[hosts.client]\ncontrol = "local"\n[hosts.server]\ncontrol = "192.0.2.1"\n')
    assert [*Lab.read(file).hosts] == ["client", "server"]
    file.write_text('[hosts.client]\ncontrol = "local"\nport = 22\n')
    with pytest.raises(BadInput, match=r"\[hosts.client\] is this machine, where port means"):
        Lab.read(file)


def test_a_lab_of_one_host_has_no_controls_and_says_why(tmp_path):
    lab = Lab.read(LOCAL_LAB)
    (said,) = control_runs.measure(lab).lines()
    assert said == (
        "No controls: they run from a client to a server, and this machine has no client."
    )
    done = labkit("controls", "--where", "local", cwd=tmp_path)
    assert done.returncode == 2 and "this machine has no client" in done.stderr
