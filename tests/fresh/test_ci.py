"""Where no fresh Debian can be made, `.ci/run` says so and runs the tests on the machine."""

import os
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
    (tmp_path / "make").write_text('#!/bin/sh\necho "make $*, NON_FREE=$NON_FREE"\nexit $CODE\n')
    (tmp_path / "make").chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CODE": "0"}


def ran(words, env):
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose rights are taken away")
def test_without_the_right_to_namespaces_the_tests_run_on_the_machine(env):
    done = ran([*WITHOUT_RIGHTS, RUN], env)
    assert "No fresh Debian here: no namespaces here" in done.stderr
    assert LOUD in done.stdout and done.stdout.endswith("make test, NON_FREE=yes\n")
    assert done.returncode == 0


def test_who_wants_no_fresh_debian_gets_none_and_the_tests_own_code(env):
    done = ran([RUN], {**env, "FRESH": "no", "CODE": "2"})
    assert LOUD in done.stdout and "make test" in done.stdout
    assert done.returncode == 2
