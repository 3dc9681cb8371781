"""The README's commands as a new user types them: in a Debian with git, make and python3 alone."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import alive

PROGRAMS = ("mmdebstrap", "setpriv", "setsid")

HOME = Path(__file__).parents[2]
FRESH = HOME / ".ci/fresh-root"
CANNOT = 75
SUITES = ("bookworm", "trixie")
PLACE = Path("/var/tmp")
pytestmark = [
    pytest.mark.torture,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a Debian of its own"),
]


def run(*words, **more):
    """What `.ci/fresh-root` said and its code; skips where there can be no such Debian."""
    result = subprocess.run(
        [FRESH, *words], text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more,
    )  # fmt: skip
    if result.returncode == CANNOT:
        pytest.skip(f"no fresh Debian here: {result.stdout.strip().splitlines()[-1]}")
    return result


@pytest.fixture(scope="module", params=SUITES)
def pristine(request):
    """A Debian that each test gets a copy of."""
    root = PLACE / f"labkit-pristine-{request.param}-{os.getpid()}"
    try:
        run("--suite", request.param, "--root", root, "--at", "/tmp/none", "true")
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def root(pristine):
    own = pristine.with_name(f"{pristine.name}-copy")
    try:
        subprocess.run(["cp", "-a", pristine, own], check=True)
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)


def test_the_demo_runs_twice_in_a_folder_that_others_cannot_read(root):
    words = ["umask 077; make demo", "umask 077; make demo"]
    result = run("--root", root, "--at", "/root/my own lab/labkit", *words)
    assert result.returncode == 0, result.stdout[-3000:]
    assert result.stdout.count("box       down again, nothing left") == 2
    assert result.stdout.count("Setting up the Python packages") == 1


@pytest.mark.parametrize("how", ["sudo", "alone"])
def test_the_demo_runs_as_a_plain_user(root, how):
    result = run("--root", root, f"tests/fresh/as_plain_user.sh {how}")
    assert result.returncode == 0, result.stdout[-3000:]
    assert "Found: " in result.stdout


def test_each_study_runs_after_the_readmes_commands_alone(root):
    result = run("--root", root, "make demo", "tests/fresh/each_study.sh")
    assert result.returncode == 0, result.stdout[-5000:]


def test_labkit_prepare_brings_programs_over_ssh_as_root_and_by_sudo(root):
    result = run("--root", root, "tests/fresh/prepare_over_ssh.sh")
    assert result.returncode == 0, result.stdout[-3000:]
    assert "as root: ping is there" in result.stdout
    assert "as plain: sockperf is there" in result.stdout
    for study in ("lat_ping", "lat_10us"):
        assert f"to get it: labkit prepare {study} --lab " in result.stdout


def test_what_ctrl_c_stopped_goes_on_the_next_time(root):
    words = ["timeout --foreground -s INT 15 make python", "make python && .venv/bin/labkit --help"]
    first = run("--root", root, words[0])
    assert first.returncode != 0
    result = run("--root", root, words[1])
    assert result.returncode == 0, result.stdout[-3000:]


def test_a_proxy_of_pip_and_apt_is_used_there(tmp_path):
    with proxied(tmp_path) as (env, log):
        result = run("make python", env=env)
        text = log.read_text()
    assert result.returncode == 0, result.stdout[-3000:]
    assert "APT" in text and "CONNECT" in text, "apt asks by name, pip through a tunnel"


@contextmanager
def proxied(folder):
    """The settings of somebody whose apt and pip know a proxy, by files of their own."""
    words = [sys.executable, Path(__file__).with_name("proxy.py"), folder / "asked"]
    with alive(words, stdout=subprocess.PIPE, text=True) as proxy:
        at = f"http://127.0.0.1:{int(proxy.stdout.readline())}"
        (folder / "home/.config/pip").mkdir(parents=True)
        (folder / "home/.config/pip/pip.conf").write_text(f"[global]\nproxy = {at}\n")
        (folder / "apt.conf").write_text(f'Acquire::http::Proxy "{at}";\n')
        given = {"HOME": str(folder / "home"), "APT_CONFIG": str(folder / "apt.conf")}
        yield {**os.environ, **given}, folder / "asked"


def test_nothing_of_it_stays_when_it_is_stopped(tmp_path):
    before = {*PLACE.glob("labkit-fresh.*")}
    words = [FRESH, "touch /tmp/begun; sleep 1000"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as made:
        for line in made.stdout:
            if line.startswith(b"=== "):
                break
        (root,) = {*PLACE.glob("labkit-fresh.*")} - before
        made.send_signal(signal.SIGTERM)
        made.wait(60)
    assert not root.exists() and not running("sleep 1000")


def running(words):
    time.sleep(1)
    said = (file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline"))
    return [text for text in said if words.encode().replace(b" ", b"\0") in text]


def test_it_says_why_where_there_can_be_none():
    refused = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", FRESH, "true"]
    result = subprocess.run(refused, capture_output=True, text=True)
    assert result.returncode == CANNOT
    assert "No fresh Debian here: no namespaces here" in result.stderr
    other = subprocess.run([FRESH, "--suite", "nosuch", "true"], capture_output=True, text=True)
    assert other.returncode == CANNOT and "mmdebstrap could not make nosuch" in other.stderr


def test_what_is_left_running_is_named(root):
    result = run("--root", root, "setsid sleep 300 >/dev/null 2>&1 &")
    assert result.returncode == 76 and "sleep 300" in result.stdout
