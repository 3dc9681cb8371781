"""`.ci/run` types the README's commands in two Debians; where it can make none, it says so."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAMS = ("setpriv",)

RUN = Path(__file__).parents[2] / ".ci/run"
WITHOUT_RIGHTS = ("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin")
LOUD = "NOT IN A FRESH DEBIAN"


# What takes a quarter of an hour is only named here: that it works, all of this run shows.
@pytest.fixture
def env(tmp_path):
    (tmp_path / "make").write_text('#!/bin/sh\necho "make $*"\nexit $CODE\n')
    (tmp_path / "make").chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CODE": "0"}


def ran(words, env):
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose rights are taken away")
def test_without_the_right_to_namespaces_the_tests_run_on_the_machine(env):
    done = ran([*WITHOUT_RIGHTS, RUN], env)
    assert "No fresh Debian here: no namespaces here" in done.stderr
    assert LOUD in done.stdout and done.stdout.endswith("make test\n")
    assert done.returncode == 0


def test_who_wants_no_fresh_debian_gets_none_and_the_tests_own_code(env):
    done = ran([RUN], {**env, "FRESH": "no", "CODE": "2"})
    assert LOUD in done.stdout and "make test" in done.stdout
    assert done.returncode == 2


@pytest.fixture
def commits(tmp_path, env):
    """`.ci/run` in a history of one's own, with a `fresh-root` that says what it is asked for."""
    home = tmp_path / "clone"
    (home / ".ci").mkdir(parents=True)
    shutil.copy(RUN, home / ".ci")
    (home / ".ci/fresh-root").write_text('#!/bin/sh\necho "$@"\n[ "$2" != "$BROKEN" ] || exit 75\n')
    (home / ".ci/fresh-root").chmod(0o755)
    git = ["git", "-C", home, "-c", "user.name=x", "-c", "user.email=x"]
    subprocess.run([*git, "init", "-q"], check=True)

    def after_one_more(**more):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
        done = ran([home / ".ci/run"], {**env, **more})
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return after_one_more


def test_debian_12_and_13_take_turns_with_the_two_commands_and_nothing_is_set_for_them(commits):
    at = "--at /root/a lab/labkit"
    assert commits() == [
        f"--suite bookworm {at} make demo", f"--suite trixie {at} make demo make test",
    ]  # fmt: skip
    assert commits() == [
        f"--suite trixie {at} make demo", f"--suite bookworm {at} make demo make test",
    ]  # fmt: skip


def test_a_debian_that_cannot_be_made_is_named_and_the_other_has_both_commands(commits):
    first, *loud, last = commits(BROKEN="bookworm")
    assert first.startswith("--suite bookworm") and last.endswith("make demo make test")
    assert any("NOT IN A FRESH bookworm" in line for line in loud)
    *_, last = commits(BROKEN="bookworm")
    assert last == "make test"


def test_a_debian_gets_no_variable_that_a_reader_does_not_set():
    text = RUN.with_name("fresh-root").read_text("utf-8")
    carried = text.partition("carried='")[2].partition("'")[0]
    refused = r"CI|NON_FREE|LABKIT|FRESH"
    assert carried and not [word for word in refused.split("|") if word in carried]
    assert "env -i" in text and "NON_FREE" not in RUN.read_text("utf-8")
