"""Logins as people have them: csh, sudo by lab.toml, tools in /usr/sbin, one that reads."""

import os
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from lab_toml import lab_toml, reached_at, table
from sshd import reached, serving

from labkit.commands.trust import _choose
from labkit.errors import BadInput, SudoRefused, TimedOut, Unknown, Unreachable
from labkit.lab import Lab
from labkit.ssh import sudo, trust
from labkit.ssh.shell import for_any_shell
from labkit.ssh.sudo import by_command
from tests.ssh.test_sudo import SECRET, users  # noqa: F401

PROGRAMS = ("python3", "tc", "tcsh")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes users in a namespace, which takes root"),
]


def lab_of(server, folder, **more):
    """A lab of that one host."""
    host = table("server", **reached_at(server.address(user="lab-csh")), **more)
    return Lab.read(lab_toml(folder / "lab.toml", host, known_hosts=server.folder / "known_hosts"))


@pytest.fixture
def csh(users):  # noqa: F811
    """A machine on which `lab-csh` has that login shell, and sudo by a password."""
    if not shutil.which("tcsh"):
        pytest.skip("no tcsh; to get it: make system-test")
    return users


@pytest.fixture
def command(tmp_path):
    """A password_command, as a password store would be one."""
    (tmp_path / "secret").write_text(f"{SECRET}\nand a second line\n")
    return f"cat {tmp_path}/secret"


def test_a_login_shell_of_csh_runs_all_that_another_runs(csh, tmp_path):
    with reached(csh.address(user="lab-csh")) as host:
        assert host.check("sh", "-c", 'echo a!b; echo "$1"', "sh", "c!d\n'e'") == "a!b\nc!d\n'e'\n"
        host.put(b"one\ntwo!\n", "/var/tmp/labkit-csh-file")
        assert host.get("/var/tmp/labkit-csh-file") == b"one\ntwo!\n"
        host.check("rm", "/var/tmp/labkit-csh-file")


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "tcsh"])
def test_a_script_comes_through_each_login_shell_as_it_is(shell):
    if not shutil.which(shell):
        pytest.skip(f"no {shell}; to get it: make system-test")
    script = "printf '%s|' 'a!b' 'c\\nd' \"$(echo \\`)\" '\n' \"it's\"\nexit 3"
    plain = subprocess.run(["sh", "-c", script], capture_output=True)
    result = subprocess.run([shell, "-c", for_any_shell(script)], capture_output=True)
    assert (result.stdout, result.returncode) == (plain.stdout, 3)


def test_sudo_is_asked_for_in_the_lab_file_and_its_password_by_a_command(csh, tmp_path, command):
    lab = lab_of(csh, tmp_path, become="sudo", password_command=command)
    host = lab.host("server")
    assert host.check("id", "-u") == "0\n"
    assert host.check("sh", "-c", "echo a!b") == "a!b\n"
    kept = [
        p for p in tmp_path.rglob("*") if p.is_file() and SECRET in p.read_text(errors="replace")
    ]
    assert kept == [tmp_path / "secret"], "nothing of ours keeps it"
    lab.close()


def test_a_command_that_gives_no_password_is_named(tmp_path):
    with pytest.raises(SudoRefused, match=r"(?s)password_command.*no such"):
        by_command("server", "sh -c 'echo no such >&2; exit 1'")()


@pytest.mark.parametrize("more, error", [
    ('become = "doas"', Unknown), ('password_command = "pass lab"', BadInput),
])  # fmt: skip
def test_what_no_host_can_become_is_refused_when_the_file_is_read(tmp_path, more, error):
    (tmp_path / "lab.toml").write_text(f'[hosts.server]\ncontrol = "a"\n{more}\n')
    with pytest.raises(error):
        Lab.read(tmp_path / "lab.toml")


def test_a_process_without_a_terminal_asks_the_one_that_started_it(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asked = []
    monkeypatch.setattr("getpass.getpass", lambda prompt: asked.append(prompt) or SECRET)
    assert sudo.asked("me@host") is None
    with sudo.answering():
        path = Path(os.environ[sudo.ASK_SOCKET])
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700, "the user's own"
        words = ["from labkit.ssh import sudo; print(sudo.asked('me@host'))"]
        for _ in range(2):
            result = subprocess.run([shutil.which("python3") and os.sys.executable, "-c", *words],
                                  capture_output=True, text=True)  # fmt: skip
            assert result.stdout == f"{SECRET}\n", result.stderr
    assert len(asked) == 1 and sudo.ASK_SOCKET not in os.environ and not path.exists()


def test_tools_of_the_system_are_found_by_a_user_whose_path_lacks_them(csh):
    with reached(csh.address(user="lab-csh")) as host:
        assert host.check("sh", "-c", "command -v tc; command -v sshd").split() == [
            shutil.which("tc", path="/usr/sbin:/sbin"), "/usr/sbin/sshd",
        ]  # fmt: skip
        with host.raw("sh", "-c", "command -v sshd") as pipe:
            assert pipe.recv(100).strip() == b"/usr/sbin/sshd"


def test_a_command_that_a_login_script_ate_is_not_said_to_run_on(tmp_path):
    with (
        serving(tmp_path, extra=["ForceCommand sh -c 'read x; sleep 100'"]) as server,
        reached(server.address()) as host,
    ):
        start = time.monotonic()
        with pytest.raises(TimedOut, match=r"(?s)was not started.*read"):
            host.run("true", seconds=3)
        assert time.monotonic() - start < 30


def test_a_fingerprint_is_compared_also_where_the_host_is_known(tmp_path):
    with serving(tmp_path) as server:
        target = trust_target(server)
        keys = trust.shown(target)
        assert trust.is_known(target, keys)
        with pytest.raises(Exception, match="none of its fingerprints"):
            _choose(target, keys, "SHA256:abc")


def trust_target(server):
    from labkit.ssh.address import resolved

    return resolved(server.address())


def test_a_public_key_in_the_lab_file_is_called_one(tmp_path):
    said = pytest.raises(Unreachable, match="it is a public key; name the private one")
    with serving(tmp_path) as server:
        at = server.address(key=str(tmp_path / "user.pub"))
        with reached(at) as host, said:
            host.run("true")


def test_a_server_that_hangs_up_on_a_kind_of_key_is_asked_for_the_others():
    """As Dropbear does, whose only key is ed25519."""
    from labkit.ssh.address import Target
    from labkit.ssh.known_hosts import Name
    from tests.ssh.test_dropbear import DROPBEAR, dropbear

    if not DROPBEAR:
        pytest.skip("no dropbear; to get it: make system-test")
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        _, port = held.enter_context(dropbear(folder))
        (key,) = trust.shown(Target("small", Name("127.0.0.1", port)))
        assert key.kind == "ssh-ed25519"
        with socket.create_server(("127.0.0.1", 0)) as closed:
            silent = Target("silent", Name("127.0.0.1", closed.getsockname()[1]))
        with pytest.raises(Unreachable):
            trust.shown(silent)


def test_what_is_judged_otherwise_than_by_ssh_is_on_the_page():
    page = (Path(__file__).parents[2] / "notebooks/docs/connecting.md").read_text("utf-8")
    assert "1023" in page and "SHA-1" in page


def test_a_folder_of_known_hosts_is_called_one(tmp_path):
    (tmp_path / "lab.toml").write_text('known_hosts = "."\n[hosts.server]\ncontrol = "a"\n')
    with pytest.raises(BadInput, match="is a folder"):
        Lab.read(tmp_path / "lab.toml")
