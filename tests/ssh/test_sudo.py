"""Root by real sudo, as real users, who exist in a copy of /etc that only this sshd sees."""

import getpass
import logging
import os
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from knobs import Knob
from sshd import reached, serving

from labkit.changes.in_force import applied
from labkit.errors import BadInput, SudoRefused, TimedOut
from labkit.host import Host
from labkit.ssh.sudo import Password, Sudo
from labkit.transports.local import Local, Process

PROGRAMS = ("chage", "chpasswd", "mount", "pgrep", "sudo", "tcsh", "unshare", "useradd")

SECRET = "canary 'pässword' $HOME"
USERS = "csh free asks tty lecture prompt override expired denied missing searched".split()  # noqa: SIM905
SUDOERS = """\
Defaults env_reset, !use_pty, timestamp_timeout=0, lecture=never
Defaults:lab-tty requiretty
Defaults:lab-lecture lecture=always
Defaults:lab-prompt passprompt="Say friend, %p: "
Defaults:lab-override passprompt="Say friend, %p: ", passprompt_override
root ALL=(ALL) ALL
Defaults:lab-searched secure_path=/absent
lab-free,lab-tty,lab-searched ALL=(ALL) NOPASSWD: ALL
lab-csh,lab-asks,lab-lecture,lab-prompt,lab-override,lab-expired,lab-missing ALL=(ALL) ALL
"""
WITHIN = """\
mount --bind "$1/etc" /etc && for user in $2; do
[ "$user" = csh ] && shell=$(command -v tcsh || echo /bin/sh) || shell=/bin/sh
useradd -M -d / -s "$shell" "lab-$user" && echo "lab-$user:$3" | chpasswd || exit; done
chage -d 0 lab-expired
shift 3; exec "$@"
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes users in a namespace, which takes root"),
    pytest.mark.skipif(not shutil.which("sudo"), reason="no sudo; to get it: make system-test"),
]


@contextmanager
def folder_for_all():
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="labkit-sudo-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def users():
    with folder_for_all() as folder:
        shutil.copytree("/etc", folder / "etc", symlinks=True, ignore_dangling_symlinks=True)
        (folder / "etc/sudoers").write_text(SUDOERS)
        (folder / "etc/sudoers").chmod(0o440)
        (folder / "bin").mkdir()
        for program in ("sh", "id", "sleep"):
            (folder / "bin" / program).symlink_to(shutil.which(program))
        paths = {"missing": f"{folder}/bin", "csh": "/usr/bin:/bin"}
        extra = [f"Match User lab-{name}\nSetEnv PATH={path}\nMatch all"
                 for name, path in paths.items()]  # fmt: skip
        words = ["unshare", "--mount", "sh", "-c", WITHIN]
        words += ["within", folder, " ".join(USERS), SECRET]
        with serving(folder, extra_last=extra, before=words) as server:
            yield server


@contextmanager
def login(users, name):
    with reached(users.address(user=f"lab-{name}")) as host:
        yield host


def never():
    pytest.fail("asked for a password")


class Asked:
    """A human who gives these answers, one each time."""

    def __init__(self, *answers):
        self.answers, self.times = list(answers), 0

    def __call__(self):
        self.times += 1
        return self.answers.pop(0)


def refused(host, ask, sign):
    start = time.monotonic()
    with pytest.raises(SudoRefused) as error:
        host.as_root(ask).run("id", "-u")
    assert time.monotonic() - start < 10
    assert sign in str(error.value), error.value
    assert SECRET not in str(error.value)


def test_a_slow_reader_loses_nothing_of_what_comes_with_sudos_consent(monkeypatch):
    at_once = Process.recv

    def late(process, seconds):
        time.sleep(0.1)
        return at_once(process, seconds)

    monkeypatch.setattr(Process, "recv", late)
    with Host("here", "", Local().as_root(never)).raw("echo", "out") as pipe:
        pipe.patience = 2
        assert pipe.recv() == b"out\n" and pipe.ended() == (0, "")


def test_without_a_password_nobody_is_asked(users, tmp_path):
    with login(users, "free") as host:
        root = host.as_root(never)
        assert host.check("id", "-un") == "lab-free\n" and root.check("id", "-un") == "root\n"
        assert len({root.check("sh", "-c", "echo $PPID") for _ in range(3)}) == 1
        with root.stream("sh", "-c", "id -u; cat", stdin=b"x") as running:
            assert [line.text for line in running] == ["0", "x"]
        root.put(b"secret", "/var/tmp/labkit-sudo-file", 0o600)
        assert root.get("/var/tmp/labkit-sudo-file") == b"secret"
        assert Path("/var/tmp/labkit-sudo-file").stat().st_uid == 0
        root.check("rm", "/var/tmp/labkit-sudo-file")
        assert host.check("id", "-un") == "lab-free\n"


def test_a_command_of_root_is_told_to_end_too(users, tmp_path):
    with login(users, "free") as host:
        with pytest.raises(TimedOut) as late:
            host.as_root(never).run("sleep", "4711", seconds=0.5)
        assert "was stopped" in late.value.hint
        assert host.run("pgrep", "-f", "sleep 4711").code == 1


def test_a_password_is_asked_for_once_however_often_sudo_asks(users):
    ask = Asked(SECRET)
    with login(users, "asks") as host:
        root = host.as_root(ask)
        with ThreadPoolExecutor(4) as pool:
            said = list(pool.map(lambda n: root.check("sh", "-c", "id -u; cat", stdin=b"x"),
                                 range(4)))  # fmt: skip
        assert said == ["0\nx"] * 4
        host.close()
        assert root.check("id", "-u") == "0\n"
        assert ask.times == 1


def test_a_wrong_password_is_tried_once_and_not_kept(users):
    ask = Asked("wrong", SECRET)
    with login(users, "asks") as host:
        root = host.as_root(ask)
        start = time.monotonic()
        with pytest.raises(SudoRefused, match="does not give root") as error:
            root.run("id", "-u")
        assert "the password is wrong" in error.value.hint and time.monotonic() - start < 10
        assert root.check("id", "-u") == "0\n"
        assert ask.times == 2


def test_a_lecture_and_a_prompt_of_its_own_do_no_harm(users):
    for name in ("lecture", "prompt", "override"):
        with login(users, name) as host:
            done = host.as_root(Asked(SECRET)).run("id", "-u")
            assert (done.stdout, done.stderr) == ("0\n", "")


def test_what_cannot_be_answered_is_refused_and_named(users):
    for name, ask, sign in [
        ("tty", never, "requiretty"),
        ("denied", Asked(SECRET), "no right to it"),
        ("missing", never, "install sudo"),
        ("searched", never, "secure_path"),
    ]:
        with login(users, name) as host:
            refused(host, ask, sign)
            assert host.check("id", "-u") != "0\n"


def test_a_question_in_other_words_is_not_answered_and_not_waited_for(users):
    with login(users, "expired") as host:
        refused(host, Asked(SECRET), "in its own words")


def test_without_anybody_to_ask_there_is_an_error_and_no_wait(users):
    with login(users, "asks") as host:
        refused(host, None, "there is no terminal to ask at")


def test_the_password_is_in_no_list_no_file_and_no_text(users, caplog, tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    look = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"
    with caplog.at_level(logging.DEBUG), login(users, "asks") as host:
        root = host.as_root(Asked(SECRET))
        done = root.run("sh", "-c", look)
        assert done.ok and SECRET not in done.stdout + done.stderr
        shown = f"{root!r} {root.transport!r} {vars(root.transport.sudo)!r} {done!r}"
        job = root.start("sh", "-c", look, key="canary", seconds=60, spool=f"{users.folder}/jobs")
        assert job.wait(60).ok and SECRET.encode() not in job.output()
        knob = users.folder / "knob"
        knob.write_text("old\n")
        with applied([Knob(str(knob), "new")], {"server": root}):
            root.put(b"-" * 2_000_000, f"{users.folder}/put")
    assert SECRET not in shown and SECRET not in caplog.text
    files = [file for at in (users.folder, tmp_path) for file in at.rglob("*") if file.is_file()]
    assert any(file.parent.name == "canary" for file in files)
    assert [file for file in files if SECRET.encode() in file.read_bytes()] == []


@pytest.mark.parametrize("kind", ["ssh", "local"])
def test_whoever_is_root_needs_no_sudo(kind, request):
    if kind == "local":
        assert Host("here", "127.0.0.1", Local()).as_root(never).check("id", "-u") == "0\n"
    else:
        root = request.getfixturevalue("ssh").as_root(never)
        assert getpass.getuser() == "root" and root.check("id", "-u") == "0\n"


def test_a_password_is_one_line():
    assert Password(lambda: "secret\n").get() == "secret"
    with pytest.raises(BadInput, match="end of a line"):
        Password(lambda: "secret\ntouch /owned").get()


def test_the_keyring_is_asked_before_the_user(tmp_path, monkeypatch):
    (tmp_path / "keyring.py").write_text("def get_password(*asked): return repr(asked)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert Sudo.of("me@far", None).password.get() == "('labkit', 'me@far')"


def test_the_machine_itself_is_as_it_was(users):
    output = subprocess.run(["getent", "passwd"], capture_output=True, text=True).stdout
    assert "lab-free" not in output
