"""`labkit compare` decides between two commands, settings or hosts, and leaves nothing changed."""

import json
from pathlib import Path

import numpy as np
import pytest

from labkit.claim import judge
from labkit.cli import main
from labkit.commands.compare import words_of
from labkit.errors import BadInput
from labkit.lab import LOCAL_LAB, Lab
from labkit.running import control_runs
from labkit.running.comparing import Comparing, Side
from labkit.transports.local import Local
from labkit.verdict import CONTRADICTED
from labkit.workloads.command import Command

pytestmark = pytest.mark.slow


@pytest.fixture
def labkit(tmp_path, monkeypatch, capsys):
    """The command line, with results of its own: (exit code, what it printed, what it told)."""
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    monkeypatch.setenv("COLUMNS", "80")

    def call(*words):
        capsys.readouterr()
        code = main(words)
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def compared(labkit):
    def call(*words, verb="compare"):
        code, out, err = labkit(verb, "--json", *words)
        assert code == 0, err
        return json.loads(out)

    return call


def test_a_line_is_read_by_a_shell_only_where_it_needs_one():
    assert words_of(["gzip", "-1", "a b"]) == ("gzip", "-1", "a b")
    assert words_of(["gzip -1 'a b'"]) == ("gzip", "-1", "a b")
    for line in ("sort f | uniq", "LANG=C sort f", "sort *"):
        assert words_of([line]) == ("sh", "-c", line)
    for wrong in (["gzip 'a"], [" "]):
        with pytest.raises(BadInput):
            words_of(wrong)


def test_the_faster_command_is_named_and_its_results_can_be_judged_again(labkit, compared):
    found = compared("sleep 0.04", "sleep 0.01", "--label", "one")
    assert found["lower"] == "B" and found["decided"] and found["blocks"] >= 3
    assert found["figures"]["A"]["value"] > 0.04 > found["figures"]["B"]["value"] > 0.01
    assert found["finding"].startswith("B is faster: A / B = ")
    page = Path(found["page"]).read_text()
    assert "B is faster" in page and "<svg" in page and "<script" not in page
    assert labkit("results", "verify", found["results"])[0] == 0
    again = labkit("report", found["results"])[1]
    assert found["finding"] in " ".join(again.split())
    assert max(map(len, again.partition("results  ")[0].splitlines())) <= 80


METRIC = ("--metric", r"qps: ([\d.]+)", "--unit", "1/s", "--blocks", "3")
OUTCOMES = {("100", "130"): "A", ("130", "100"): "B", ("100", "100"): ""}


@pytest.mark.parametrize("figures", OUTCOMES, ids="-".join)
def test_a_figure_that_is_printed_is_compared_and_equal_ones_are_neither(figures, compared):
    found = compared(*METRIC, *(f"echo qps: {n}" for n in figures))
    assert found["lower"] == OUTCOMES[figures] and found["unit"] == "1/s"
    assert found["figures"]["A"]["value"] == float(figures[0])


REFUSED = {
    ("sleep 0.01", "no-such-program"): "is `no-such-program` installed",
    ("true", "false"): "`false` ended with code 1",
    ("true", "true", "--metric", "qps: (.*)"): "finds nothing in the output",
    ("true", "true", "--metric", "("): "is no regular expression",
    ("echo a", "echo b", "--metric", "(.*)"): "which is not a number",
    ("echo 1e308", "echo 1", "--metric", r"\de?\d*"): "1e+308 is no measurement",
    ("true", "true", "--unit", "ms"): "--unit is of a --metric",
    ("true", "true", "--prepare", "false"): "it was not prepared: false",
    ("true",): "A and B are the same: true",
    ("true", "no-such-program", "--margin", "2"): "a margin lies above 0",
    ("true", "no-such-program", "--minutes", "-1"): "a budget is above 0",
    ("true", "--b", "Mtu(9000)", "--on", "nobody"): "unknown role 'nobody'",
    (): "which command?",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_cannot_be_compared_is_named_and_nothing_is_kept(words, labkit, tmp_path):
    code, _, err = labkit("compare", *words)
    assert code in (1, 2) and REFUSED[words] in err, err
    assert not (tmp_path / "out/results").exists()


@pytest.mark.box
def test_a_setting_is_in_force_on_its_side_alone_and_is_put_back(lab_file, compared):
    lab = Lab.read(lab_file)
    file = f"/sys/class/net/{lab.host('server').interface}/mtu"
    before = lab.host("server").check("cat", file)
    found = compared(
        "--lab", str(lab_file), "--b", "Mtu(1300)", "--metric", r"\d+", "--blocks", "3",
        "--", "cat", file,
    )  # fmt: skip
    assert found["lower"] == "B", found["finding"]
    assert found["figures"]["B"]["value"] == 1300
    assert found["figures"]["A"]["value"] == float(before)
    assert lab.host("server").check("cat", file) == before
    assert found["sides"]["B"]["shown"] == "Mtu = 1300"


@pytest.mark.box
@pytest.mark.parametrize("side", ["--a", "--b"])
def test_a_setting_that_does_not_take_is_named_before_a_command_is_tried(side, lab_file, labkit,
                                                                         tmp_path):  # fmt: skip
    trace = tmp_path / "tried"
    setting = "Sysctl('net.ipv4.ip_default_ttl', '999')"
    words = ("compare", "--lab", str(lab_file), side, setting, "--", "touch", str(trace))
    code, _, err = labkit(*words)
    assert code == 1 and "ip_default_ttl was refused" in err, err
    assert not trace.exists() and not (tmp_path / "out/results").exists()


@pytest.mark.parametrize("times", [1, 4, 6, 7, 50])
def test_equal_figures_of_few_runs_are_decided_however_often_the_command_ran(times):
    comparing = Comparing({"A": Side(("a",)), "B": Side(("b",))}, Command(times=times))
    figures = {"A": 1500.0, "B": 1300.0}
    sides = {name: {k: np.full(times, x) for k in (1, 2, 3)} for name, x in figures.items()}
    assert judge(comparing.study().claims, sides)[0].verdict == CONTRADICTED


@pytest.mark.box
def test_one_command_is_compared_on_two_hosts(lab_file, compared):
    lab = Lab.read(lab_file)
    script = "hostname -I | tr -cd 0-9 | tail -c 1"
    found = compared(
        "--lab", str(lab_file), "--on-a", "client", "--on-b", "server", "--blocks", "3",
        "--metric", r"\d+", "--", "sh", "-c", script,
    )  # fmt: skip
    ends = {role: lab.host(role).check("sh", "-c", script) for role in ("client", "server")}
    assert [found["figures"][side]["value"] for side in "AB"] == [float(e) for e in ends.values()]


def test_this_machine_is_a_lab_of_one_host_without_an_sshd(labkit):
    host = Lab.read(LOCAL_LAB).host("server")
    assert isinstance(host.transport, Local) and host.check("echo", "here") == "here\n"
    looked = labkit("doctor", "--lab", "local")[1]
    assert "it is this machine" in looked and "SSH server answers" not in looked
    code, _, err = labkit("trust", "server", "--lab", str(LOCAL_LAB))
    assert code == 2 and "there is no key to trust" in err


def test_a_local_host_has_no_keys_of_ssh_and_may_stand_beside_others(tmp_path):
    file = tmp_path / "lab.toml"
    file.write_text('[hosts.client]\ncontrol = "local"\n[hosts.server]\ncontrol = "192.0.2.1"\n')
    assert [*Lab.read(file).hosts] == ["client", "server"]
    file.write_text('[hosts.client]\ncontrol = "local"\nport = 22\n')
    with pytest.raises(BadInput, match=r"\[hosts.client\] is this machine, where port means"):
        Lab.read(file)


def test_a_lab_of_one_host_has_no_controls_and_says_why(labkit):
    lab = Lab.read(LOCAL_LAB)
    (said,) = control_runs.measure(lab).lines()
    assert said == (
        "No controls: they run from a client to a server, and this machine has no client."
    )
    code, _, err = labkit("controls", "--where", "local")
    assert code == 2 and "this machine has no client" in err


PROFILE = """\
what = "small packets"
settings = ["Mtu(1300)"]
optional = ["Turbo(False)", "Sysctl('net.ipv4.ip_default_ttl', '99')"]
"""


@pytest.fixture
def profile(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(PROFILE)
    return str(file)


@pytest.mark.box
def test_a_profile_is_compared_with_none_and_all_of_it_is_put_back(lab_file, profile, compared):
    server = Lab.read(lab_file).host("server")
    files = (f"/sys/class/net/{server.interface}/mtu", "/proc/sys/net/ipv4/ip_default_ttl")
    before = server.check("cat", *files)
    found = compared(profile, "--lab", str(lab_file), "--metric", r"\d{3,}", "--blocks", "3",
                     "--", "cat", *files, verb="tune")  # fmt: skip
    assert found["lower"] == "B" and found["figures"]["B"]["value"] == 1300
    assert (
        found["sides"]["B"]["shown"]
        == "profile small: Mtu = 1300; Sysctl: net.ipv4.ip_default_ttl = 99"
    )
    (lacks,) = found["sides"]["B"]["lacks"]
    assert lacks.startswith("Turbo = off (") and lacks in Path(found["page"]).read_text()
    assert server.check("cat", *files) == before


@pytest.mark.box
def test_a_command_runs_once_under_a_profile_and_its_code_is_the_answer(lab_file, profile, labkit):
    words = ("--once", "--", "sh", "-c", "cat /proc/sys/net/ipv4/ip_default_ttl; exit 3")
    code, out, err = labkit("tune", profile, "--lab", str(lab_file), *words)
    assert (code, out) == (3, "99\n") and "not set: Turbo = off" in err
    ttl = Lab.read(lab_file).host("server").check("cat", "/proc/sys/net/ipv4/ip_default_ttl")
    assert ttl == "64\n"


@pytest.mark.box
def test_a_profile_of_which_a_host_can_take_nothing_is_refused(lab_file, labkit, tmp_path):
    (tmp_path / "none.toml").write_text('optional = ["Turbo(False)", "PowerPolicy()"]\n')
    code, _, err = labkit("tune", str(tmp_path / "none.toml"), "--lab", str(lab_file), "--", "true")
    assert code == 2 and "profile none changes nothing on server" in err and "PowerPolicy" in err


WRONG = {
    'optional = ["Turbo(False)"]\nwhta = "x"': "none.toml:2: unknown key 'whta'",
    'optional = "Turbo(False)"': "none.toml:1: must be a list of texts",
    'what = "x"': "has no settings",
    'what = "x"\nsettings = ["Tubro(False)"]': "none.toml:2: unknown setting 'Tubro'",
    "what = ": "none.toml:1: is not TOML",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_profile_with_a_mistake_is_named_with_its_line(text, labkit, tmp_path):
    (tmp_path / "none.toml").write_text(text)
    code, _, err = labkit("tune", str(tmp_path / "none.toml"))
    assert code == 2 and WRONG[text] in err, err


def test_each_profile_of_labkit_can_be_planned_here(labkit):
    code, out, _ = labkit("tune", "--json")
    names = [row["name"] for row in json.loads(out)]
    assert code == 0 and {"latency", "steady", "throughput"} <= {*names}
    for name in names:
        assert labkit("tune", name, "--json")[0] == 0
    code, _, err = labkit("tune", "stedy", "--", "true")
    assert code == 2 and "did you mean 'steady'" in err
