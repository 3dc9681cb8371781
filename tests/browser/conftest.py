"""One JupyterLab server for all browser tests, and pages that may only speak to this machine."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from waiting import free_port

from labkit import box
from labkit.running.notebook import LEAN

# The last is for the driver, a program of Node.js.
PROGRAMS = ("chromium", "/usr/lib/*/libatomic.so.1")

CHECKOUT = Path(__file__).resolve().parents[2]
# Two runs of the tests on one machine need different names.
BOX = f"{os.environ['LABKIT_TEST_BOX']}-b" if os.environ.get("LABKIT_TEST_BOX") else "browser"
SCREENSHOTS = CHECKOUT / "out" / "screenshots"
# Each takes half a second, and only a person looks at them.
KEPT = os.environ.get("LABKIT_SCREENSHOTS", "no") != "no"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# As on Binder; pop-ups would also hide what a screenshot should show.
SETTINGS = json.loads((CHECKOUT / "binder" / "overrides.json").read_text())
SETTINGS["@jupyterlab/apputils-extension:notification"]["doNotDisturbMode"] = True
SETTINGS["@jupyterlab/notebook-extension:tracker"] = {"windowingMode": "none"}
# Of the notebooks in one page, the one on top.
SHOWN = ".jp-NotebookPanel:not(.lm-mod-hidden)"
# On CPUs that other tests use as well.
READY_MS = 120_000


def script(name: str) -> str:
    """A function of JavaScript, to be called in a page."""
    return (Path(__file__).parent / "js" / f"{name}.js").read_text("utf-8")


READY = script("ready")
STANDING = script("standing")
CELLS = script("cells")

CUT_OFF = script("cut_off")
DARK = "() => { jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'}) }"
CONTRAST = script("contrast")


@dataclass(frozen=True)
class Server:
    """A JupyterLab of our own: where it listens, its secret, the folder of its notebooks."""

    port: int
    token: str
    folder: Path
    log: Path

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}?token={self.token}"


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pytest.importorskip("jupyterlab")
    home = tmp_path_factory.mktemp("jupyter")
    folder = home / "notebooks"
    folder.mkdir()
    port = free_port()
    server = Server(port, secrets.token_hex(16), folder, home / "lab.log")
    with server.log.open("wb") as log:
        process = subprocess.Popen(
            _command(server), cwd=home, env=_environment(home), stdout=log, stderr=log
        )
        try:
            awaited(lambda: answers(server.url("api/status")), process, server.log, 60)
            yield server
        finally:
            process.terminate()
            process.wait(30)


def _command(server: Server) -> list[str]:
    return [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root",
        "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={server.port}",
        "--ServerApp.port_retries=0", f"--IdentityProvider.token={server.token}",
        f"--ServerApp.root_dir={server.folder}", "--LabApp.expose_app_in_browser=True",
        "--LabApp.extension_manager=readonly",
    ]  # fmt: skip


def _environment(home: Path) -> dict[str, str]:
    for name, values in SETTINGS.items():
        file = home / "settings" / f"{name.replace(':', '/')}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    own = {
        "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "share", "IPYTHONDIR": "ipython",
        "JUPYTER_RUNTIME_DIR": "runtime", "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces", "LABKIT_OUT": "out",
    }  # fmt: skip
    _kernels_start_lean(home / own["IPYTHONDIR"] / "profile_default")
    kept = {name: value for name, value in os.environ.items() if name != "LABKIT_BATCH"}
    return {**kept, **{name: str(home / folder) for name, folder in own.items()}}


# What the kernel of a user imports besides is tried in `house/test_import.py`.
def _kernels_start_lean(profile: Path) -> None:
    profile.mkdir(parents=True)
    said = LEAN.partition("=")[2]
    (profile / "ipython_kernel_config.py").write_text(f"c.IPKernelApp.exec_lines = [{said!r}]\n")


def awaited(look, process: subprocess.Popen[bytes], log: Path, seconds: float = 120) -> Any:
    """What `look` finds, once it finds something; the process says why if it never does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError, ValueError):
            if found := look():
                return found
        time.sleep(0.1)
    pytest.fail(log.read_text()[-3000:])


def answers(address: str) -> bool:
    urllib.request.urlopen(address, timeout=2).close()
    return True


@pytest.fixture(scope="package")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    """A page that notes every request; what would leave this machine is refused."""
    opened = chromium.new_context(viewport={"width": 1400, "height": 1300}).new_page()
    opened.strayed = []

    def only_here(route):
        url = route.request.url
        if url.startswith(("http://127.0.0.1:", "file:", "data:", "blob:")):
            return route.continue_()
        opened.strayed.append(url)
        return route.abort()

    opened.route("**/*", only_here)
    yield opened
    opened.context.close()


@dataclass
class Notebook:
    """A notebook of ours, open in JupyterLab."""

    page: Any
    server: Server
    screenshots: Path

    def open(self, stem: str, **values: object) -> None:
        """Open a copy whose parameters have other values."""
        self._copied(stem, values)
        self._visit(stem)

    def show(self, stem: str, *cells: Any) -> None:
        """Open a notebook that has nothing but these cells."""
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        whole = nbformat.v4.new_notebook(cells=[*cells], metadata=kernel)
        (self.server.folder / f"{stem}.ipynb").write_text(json.dumps(whole), "utf-8")
        self._visit(stem)

    # In a workspace of its own: no tabs of earlier tests.
    def _visit(self, stem: str) -> None:
        text = f"lab/workspaces/{secrets.token_hex(4)}/tree/{stem}.ipynb"
        self.page.goto(self.server.url(text))
        self.page.wait_for_function(READY, timeout=READY_MS)

    def open_beside(self, stem: str, **values: object) -> None:
        """Open another one in the same page, with the kernel of the one before it.

        So that JupyterLab is loaded once, and all that notebooks import.
        """
        self._copied(stem, values)
        kernel = self.page.evaluate(
            "() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"
        )
        asked = {"path": f"{stem}.ipynb", "name": stem, "type": "notebook",
                 "kernel": {"id": kernel}}  # fmt: skip
        request = urllib.request.Request(
            self.server.url("api/sessions"), json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )  # fmt: skip
        urllib.request.urlopen(request, timeout=30).close()
        self.page.evaluate(
            "path => { jupyterapp.commands.execute('docmanager:open', { path }) }", f"{stem}.ipynb"
        )
        text = f"jupyterapp.shell.currentWidget.context?.path === '{stem}.ipynb'"
        try:
            self.page.wait_for_function(f"() => {text} && ({READY})()", timeout=READY_MS)
        except Exception:
            self.page.screenshot(path=self.screenshots / "not-ready.png")
            pytest.fail(f"{stem} did not open: {self.page.evaluate(STANDING)}")

    def _copied(self, stem: str, values: dict[str, object]) -> None:
        notebook = nbformat.read(CHECKOUT / "notebooks" / f"{stem}.ipynb", as_version=4)
        cell = next(c for c in notebook.cells if "parameters" in c.metadata.get("tags", ()))
        cell.source += "".join(f"\n{name} = {value!r}" for name, value in values.items())
        nbformat.write(notebook, self.server.folder / f"{stem}.ipynb")

    def run_all(self, seconds: float = 120) -> None:
        """Run all cells; the first that fails fails the test."""
        self._run(lambda cells: cells["ran"] == cells["all"], "the last cell", seconds)

    def run_until(self, pattern: str, seconds: float = 120) -> None:
        """Run all cells until one shows a text; one that fails fails the test."""
        shown = self.page.locator(f"text={pattern}")
        self._run(lambda _: shown.count(), pattern, seconds)

    def _run(self, there: Callable[[dict[str, Any]], object], what: str, seconds: float) -> None:
        # Not awaited: awaiting a command inside evaluate hangs.
        self.page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells') }")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            cells = self.page.evaluate(CELLS)
            assert not cells["failed"], cells
            if there(cells):
                return
            self.page.wait_for_timeout(100)
        self.page.screenshot(path=self.screenshots / "not-shown.png")
        pytest.fail(f"no {what} after {seconds} s: {cells}")

    def shoot(self, name: str, text: str) -> None:
        """Scroll to the cell that holds `text`; where pictures are asked for, keep one."""
        found = self.page.locator(f"{SHOWN} .jp-Cell", has_text=text).first
        found.evaluate("cell => cell.scrollIntoView()")
        if KEPT:
            self.page.wait_for_timeout(300)
            self.page.screenshot(path=self.screenshots / f"{name}.png")


@pytest.fixture
def lab_notebook(page, lab_server, screenshots) -> Notebook:
    return Notebook(page, lab_server, screenshots)


@pytest.fixture(scope="session")
def own_box() -> Iterator[str]:
    """The lab.toml of a box that only these tests use."""
    yield str(box.up(BOX))
    box.down(BOX)


@pytest.fixture(scope="session")
def screenshots() -> Path:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    return SCREENSHOTS
