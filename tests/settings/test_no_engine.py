"""Docker that is absent, has no daemon, or may not be asked is named before anything changes."""

import os
import shutil

import pytest

from labkit.changes.plan import plan
from labkit.host import Host
from labkit.settings.container import ContainerCpus
from labkit.transports.local import Local

PROGRAMS = ("docker", "setpriv")

needs_docker = pytest.mark.skipif(not shutil.which("docker"), reason="no docker: make system")
TOOLS = ("sh", "cat", "id", "uname", "sed", "mkdir", "ls", "env", "head", "tr", "sha256sum")
ASKED = ContainerCpus("lab", "0")


class Around(Local):
    """This machine, with words before each command."""

    def __init__(self, *words):
        super().__init__("here")
        self.words = words

    def run(self, words, **how):
        return super().run((*self.words, *words), **how)


def why(*words):
    (step,) = plan([ASKED], {"server": Host("here", "127.0.0.1", Around(*words))}).steps
    return step.why


@needs_docker
def test_an_engine_without_a_daemon_is_impossible_and_says_so(tmp_path):
    said = why("env", f"DOCKER_HOST=unix://{tmp_path}/nobody.sock")
    assert "daemon" in said and str(tmp_path) in said


def test_a_host_without_docker_says_what_it_is_instead(tmp_path):
    for name in TOOLS:
        (tmp_path / name).symlink_to(shutil.which(name))
    assert "docker" in why("env", f"PATH={tmp_path}")


@needs_docker
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_who_may_not_ask_the_daemon_is_told_so(tmp_path):
    said = why("setpriv", "--reuid=65534", "--clear-groups", "env", "HOME=/nonexistent")
    assert "root" in said
