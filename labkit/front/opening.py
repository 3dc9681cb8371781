"""JupyterLab, opened at the front page: its notebook has run before a browser shows it."""

import ast
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import chdir
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_core.paths import jupyter_runtime_dir
from jupyter_server.serverapp import list_running_servers
from nbformat import v4

from labkit import studies
from labkit.errors import LabkitError
from labkit.front.cards import link_of
from labkit.machine import records
from labkit.machine.places import HOME, out
from labkit.running import notebook

NAME = "front-page.ipynb"
WORDS = """\
# labkit

Studies, your lab, and what was measured. *Tab* goes from one part to the next, *Enter* opens a
link or presses a button. If buttons do nothing, run the cell below with *Shift-Enter*.
"""
CODE = """\
from labkit.front.front_page import FrontPage

FrontPage()"""
STATE = "application/vnd.jupyter.widget-state+json"
ASK_STATE = "__import__('json').dumps(__import__('ipywidgets').Widget.get_manager_state())"
LOOK_SECONDS, SHOWN_SECONDS, ASK_SECONDS = 0.1, 60.0, 30.0
"""Between two looks for the server; how long it and the page may take; an answer of the server."""
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)"}}
Say = Callable[[str], None]


@dataclass(frozen=True)
class Opened:
    """A JupyterLab that runs: its process, its root, and the page to show first."""

    process: subprocess.Popen[bytes]
    root: Path
    page: Path

    def server(self) -> dict[str, Any] | None:
        """Its own description, once it listens: `url`, `token`, `password`."""
        servers = (server for server in list_running_servers() if server["pid"] == self.process.pid)
        return next(servers, None)


def root() -> Path:
    """The folder that JupyterLab shows: the checkout; else that of results, with notebooks in it.

    The notebooks of an installed package are not for writing, so they are copied once.
    """
    _link_workspaces()
    if out().is_relative_to(HOME) and os.access(HOME, os.W_OK):
        return HOME
    with records.keeping(f"notebooks in {out()}"):
        if not (out() / "notebooks").is_dir():
            shutil.copytree(HOME / "notebooks", out() / "notebooks")
    return out()


# JupyterLab shows what is below its root, and follows links.
def _link_workspaces() -> None:
    for file in filter(None, map(notebook.found, studies.names())):
        if file.is_relative_to(HOME / "notebooks"):
            continue
        link = link_of(file.parents[1])
        with records.keeping(f"a link to {file.parents[1]} in {out()}"):
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(file.parents[1])


def write_page(*, with_cards: bool = False) -> Path:
    """Write the notebook of the front page, not yet run, among the results.

    It may show its cards as they are now, for a place where no server of ours can run it.
    """
    cell = v4.new_code_cell(CODE, metadata={"jupyter": {"source_hidden": True}})  # type: ignore[no-untyped-call]
    head = v4.new_markdown_cell(WORDS)  # type: ignore[no-untyped-call]
    for cell_of_two in (head, cell):
        cell_of_two.metadata["deletable"] = False
    page = v4.new_notebook(cells=[head, cell], metadata=KERNEL)  # type: ignore[no-untyped-call]
    with records.keeping(f"the front page in {out()}"):
        out().mkdir(parents=True, exist_ok=True)
        nbformat.write(page, out() / NAME)  # type: ignore[no-untyped-call]
    if with_cards:
        _show_cards(out() / NAME)
    return out() / NAME


def _show_cards(page: Path) -> None:
    from labkit.front.front_page import FrontPage

    with chdir(page.parent):  # links lead from where the notebook lies
        front = FrontPage()
        front.look()
        cards = front.snapshot()
    output = v4.new_output("display_data", data=cards)  # type: ignore[no-untyped-call]
    _keep(page, [output], {})


def begin(words: Sequence[str]) -> Opened:
    """Start JupyterLab with these words of its command line; no browser yet."""
    path, page = root(), write_page()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", f"--ServerApp.root_dir={path}"]
    defaults = str(files("labkit").joinpath("front"))
    paths = os.environ.get("JUPYTER_CONFIG_PATH", "")
    env = {**os.environ, "JUPYTER_CONFIG_PATH": ":".join(filter(None, (paths, defaults)))}
    return Opened(subprocess.Popen([*command, *words], env=env), path, page)


def show(jupyter: Opened, say: Say, browser: bool = True) -> None:
    """Run the front page once the server listens, then open it in a browser.

    A page that could not be run is opened all the same: its own cell runs it.
    """
    server = _listening(jupyter)
    if server is None:
        return
    try:
        run_page(server, jupyter)
    except (OSError, LabkitError, RuntimeError, TimeoutError) as error:
        say(f"the front page was not run ({error}); run its cell with Shift-Enter")
    address = f"{server['url']}{shown_first(jupyter.page, jupyter.root)}"
    address += f"&token={server['token']}" if server["token"] else ""
    say(f"the front page: {address}")
    if browser:
        webbrowser.open(address)


def shown_first(page: Path, root: Path) -> str:
    """The path of a server that opens the page, and the list of files at the notebooks."""
    return f"lab/tree/{page.relative_to(root).as_posix()}?file-browser-path=/notebooks"


# It describes itself once its port is open; what is asked before it is ready waits.
def _listening(jupyter: Opened) -> dict[str, Any] | None:
    end = time.monotonic() + SHOWN_SECONDS
    while time.monotonic() < end and jupyter.process.poll() is None:
        if server := jupyter.server():
            return server
        time.sleep(LOOK_SECONDS)
    return None


def run_page(server: dict[str, Any], jupyter: Opened) -> None:
    """Run the notebook in a kernel of this server, and keep what it showed in its file."""
    path = jupyter.page.relative_to(jupyter.root).as_posix()
    session = {"path": path, "name": NAME, "type": "notebook", "kernel": {"name": "python3"}}
    kernel = str(_ask(server, "api/sessions", session)["kernel"]["id"])
    client = BlockingKernelClient()
    client.load_connection_file(str(Path(jupyter_runtime_dir(), f"kernel-{kernel}.json")))
    client.start_channels()
    try:
        _wait(client)
        _keep(jupyter.page, *_ran(client))
    finally:
        client.stop_channels()


# A kernel that begins on a busy machine misses a heartbeat, which jupyter_client calls dead.
def _wait(client: BlockingKernelClient) -> None:
    end = time.monotonic() + SHOWN_SECONDS
    while True:
        try:
            return client.wait_for_ready(timeout=SHOWN_SECONDS)
        except RuntimeError:
            if time.monotonic() > end:
                raise


def _ran(client: BlockingKernelClient) -> tuple[list[Any], dict[str, Any]]:
    outputs: list[Any] = []

    def hear(message: dict[str, Any]) -> None:
        if message["msg_type"] in ("display_data", "execute_result", "stream", "error"):
            outputs.append(v4.output_from_msg(message))  # type: ignore[no-untyped-call]

    options: dict[str, Any] = {"timeout": SHOWN_SECONDS, "allow_stdin": False}
    client.execute_interactive(CODE, output_hook=hear, **options)
    reply = client.execute_interactive(
        "", silent=True, user_expressions={"state": ASK_STATE}, output_hook=hear, **options
    )
    text = reply["content"]["user_expressions"]["state"].get("data", {}).get("text/plain", "'{}'")
    return outputs, json.loads(ast.literal_eval(text))


# Widgets are drawn only in a notebook that is trusted, which is one that this user has run.
def _keep(page: Path, outputs: list[Any], state: dict[str, Any]) -> None:
    from nbformat.sign import NotebookNotary

    document = nbformat.read(page, as_version=4)  # type: ignore[no-untyped-call]
    document.cells[1].outputs, document.cells[1].execution_count = outputs, 1
    document.metadata["widgets"] = {STATE: state}
    nbformat.write(document, page)  # type: ignore[no-untyped-call]
    NotebookNotary().sign(document)  # type: ignore[no-untyped-call]


def _ask(server: dict[str, Any], path: str, content: dict[str, Any] | None = None) -> Any:
    request = urllib.request.Request(
        f"{server['url']}{path}", json.dumps(content).encode() if content else None,
        {"Authorization": f"token {server['token']}", "Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=ASK_SECONDS) as answer:
        return json.load(answer)
