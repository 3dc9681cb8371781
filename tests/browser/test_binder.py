"""Binder's last step, `postBuild`, in an environment of its own, and what a visitor sees first."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from labkit import studies
from tests.browser.conftest import CHECKOUT, answers, awaited

PROGRAMS = ("chromium",)

pytestmark = [pytest.mark.torture, pytest.mark.browser]

BELOW = ".jp-DirListing-itemText"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A clone after `postBuild`, which finds all packages there at the versions of the lock."""
    at = tmp_path_factory.mktemp("binder")
    clone, env = at / "clone", at / "env"
    subprocess.run(["git", "clone", "-q", CHECKOUT, clone], check=True)
    subprocess.run([sys.executable, "-m", "venv", env], check=True)
    (there,) = env.glob("lib/python3*/site-packages")
    (there / "zz-lock.pth").write_text(sysconfig.get_path("purelib"))
    for part in ("kernels", "labextensions", "lab/static", "lab/schemas", "lab/themes"):
        (env / "share/jupyter" / part).parent.mkdir(parents=True, exist_ok=True)
        (env / "share/jupyter" / part).symlink_to(Path(sys.prefix, "share/jupyter", part))
    ours = ("LABKIT", "PYTHONPATH")
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith(ours)},
        "PATH": f"{env}/bin:{os.environ['PATH']}", "HOME": str(at), "PIP_NO_INDEX": "1",
        "JUPYTER_PREFER_ENV_PATH": "1",
    }  # fmt: skip
    done = subprocess.run(
        [clone / "binder/postBuild"], cwd=at, env=environ, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert "Successfully installed labkit" in done.stdout
    return clone, env, environ


@pytest.fixture
def address(built, tmp_path):
    """JupyterLab as Binder starts it: in the clone, with its defaults, at its root address."""
    clone, env, environ = built
    words = [env / "bin/python", "-m", "jupyterlab", "--no-browser", "--allow-root",
             "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", "--IdentityProvider.token=",
             "--LabApp.expose_app_in_browser=True"]  # fmt: skip
    runtime = tmp_path / "runtime"
    environ = {**environ, "JUPYTER_RUNTIME_DIR": str(runtime)}
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(words, cwd=clone, env=environ, stdout=log, stderr=log) as process,
    ):
        try:
            yield awaited(lambda: listening(runtime), process, tmp_path / "log")
        finally:
            process.terminate()


def listening(runtime):
    """The address of the server, once it answers."""
    for file in runtime.glob("jpserver-*.json"):
        url = json.loads(file.read_text())["url"]
        return url if answers(f"{url}api/status") else ""


def test_the_front_page_is_open_with_its_cards_and_the_list_of_files_shows_notebooks(address, page):
    page.goto(address, timeout=120_000)
    page.wait_for_selector(f".lk-card >> nth={len(studies.names()) - 1}", timeout=120_000)
    page.wait_for_selector(f"{BELOW}:has-text('01-lat-ping.ipynb')", timeout=30_000)
    assert page.evaluate("() => jupyterapp.shell.currentWidget.context.path").endswith(
        "front-page.ipynb"
    )
    page.locator(".lk-card a", has_text="Round trips by ping").first.click()
    page.wait_for_function(
        "() => jupyterapp.shell.currentWidget.context.path === 'notebooks/01-lat-ping.ipynb'"
    )
    page.wait_for_selector("text=/where: str = .recorded./")
    assert page.strayed == []
