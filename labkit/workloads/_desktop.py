"""Desktops on a host, each with one application, and the users on a client who look at them."""

from __future__ import annotations

import json
import secrets
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.errors import HostError, ResultsError
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.programs.packages import brings
from labkit.setting import Words
from labkit.workloads import _desktop_files as files
from labkit.workloads import _desktop_serve as serve
from labkit.workloads import _desktop_users as users
from labkit.workloads._own_place import own_folder
from labkit.workloads._server import serving

PROGRAMS = ("glmark2", "mupdf-gl", "openscad", "python3")

FILE_KEY = bytes((23, 82, 107, 6, 35, 78, 88, 7))
"""The fixed key of VNC's password files: only the file's mode keeps others from the password."""
SIZE = "800x600"
READY_SECONDS, END_SECONDS, LOOK_SECONDS = 60, 10.0, 0.05
HAVE_PYTHON = "import sys; sys.exit(sys.version_info < (3, 9))"
NO_PANELS = b"""[General]
showAxes=false
[view]
hideConsole=true
hideEditor=true
hideCustomizer=true
hideErrorLog=true
"""
SETTINGS = ".config/OpenSCAD/OpenSCAD.conf"
# glmark2 looks for models beside its own shaders.
GLMARK2 = """\
mkdir -p data/models && mv reducer.obj data/models &&
ln -s /usr/share/glmark2/shaders /usr/share/glmark2/textures data &&
exec glmark2 --data-path data --size 600x600 -b build:model=reducer:duration=9999"""


@dataclass(frozen=True)
class Application:
    """A program of a desktop, the files that it opens, and how a user's hand uses it."""

    words: Words
    files: Callable[[], Mapping[str, bytes]]
    hand: str
    region: int = 400
    """Pixels at a place that change with each frame: more than a pointer or a line of state."""


def _model(name: str) -> Application:
    def opened() -> Mapping[str, bytes]:
        return {name: beside(__file__, f"_desktop_{name}").encode(), SETTINGS: NO_PANELS}

    return Application(("openscad", name), opened, "drag", 2000)


APPLICATIONS = {
    "reader": Application(("mupdf-gl", "own.pdf"), lambda: {"own.pdf": files.pages()}, "keys"),
    "scooter": _model("scooter.scad"),
    "shaft": _model("shaft.scad"),
    "reducer": Application(
        ("sh", "-c", GLMARK2), lambda: {"reducer.obj": files.reducer()}, "watch"
    ),
}


@dataclass(frozen=True)
class Desktop:
    """One that serves: where, its password, and its folder on the host."""

    host: Host
    port: int
    secret: str
    folder: str

    @property
    def place(self) -> list[Any]:
        """The address, port and password for a client."""
        return [self.host.address, self.port, self.secret]

    def end(self) -> dict[str, Any]:
        """Wait for its end: the reason, the frames that it made, and who drew them."""
        until = time.monotonic() + END_SECONDS
        while not (text := self.host.run("cat", f"{self.folder}/end")).ok:
            if time.monotonic() > until:
                raise HostError(f"{self.host.name}: a desktop did not end", said=text.stderr)
            time.sleep(LOOK_SECONDS)
        answer: dict[str, Any] = json.loads(text.stdout)
        return answer


# For any display; Xvnc and the applications read it (Xau's format).
def _authority(cookie: bytes) -> bytes:
    parts = (b"", b"", b"MIT-MAGIC-COOKIE-1", cookie)
    return b"\xff\xff" + b"".join(struct.pack(">H", len(part)) + part for part in parts)


def no_python(hosts: Sequence[Host]) -> str:
    """Reason why a host cannot run the programs of this module; empty if all can."""
    missing = (host for host in hosts if not host.run("python3", "-c", HAVE_PYTHON).ok)
    host = next(missing, None)
    return f"Python 3.9 or newer is missing on {host.name}: {brings('python3')}" if host else ""


@contextmanager
def desktop(host: Host, application: Application, count: float = 0) -> Iterator[Desktop]:
    """A display that serves RFB; its application begins once a client has connected."""
    folder = f"{own_folder(host)}/desktop-{secrets.token_hex(4)}"
    host.check("mkdir", "-m", "700", folder)
    try:
        secret, cookie = secrets.token_hex(4), secrets.token_bytes(16)
        host.put(users.des(FILE_KEY, secret.encode()), f"{folder}/password", 0o600)
        host.put(_authority(cookie), f"{folder}/cookie", 0o600)
        host.put(Path(serve.__file__).read_bytes(), f"{folder}/serve.py", 0o644)
        for name, content in application.files().items():
            host.check("mkdir", "-p", str(Path(folder, name).parent))
            host.put(content, f"{folder}/{name}", 0o644)

        def words(port: int) -> Words:
            return ("python3", f"{folder}/serve.py", folder, host.address, str(port), SIZE,
                    str(count), *application.words)  # fmt: skip

        with serving(host, words, seconds=READY_SECONDS) as port:
            yield Desktop(host, port, secret, folder)
    finally:
        host.run("rm", "-rf", folder)


def look(client: Host, task: Mapping[str, Any], seconds: float) -> list[dict[str, Any]]:
    """The users' program on the client: what it says of each trial."""
    program = f"{own_folder(client)}/desktop-users-{secrets.token_hex(4)}.py"
    client.put(Path(users.__file__).read_bytes(), program, 0o644)
    try:
        given = json.dumps(task).encode()
        said = client.check("python3", program, stdin=given, seconds=60 + 5 * seconds)
    finally:
        client.run("rm", "-f", program)
    return [trial(line) for line in said.splitlines()]


def trial(line: str) -> dict[str, Any]:
    """A line of the users' program."""
    try:
        read: dict[str, Any] = {**json.loads(line)}
    except (TypeError, ValueError) as odd:
        raise ResultsError("desktops: a trial cannot be read", said=f"{line}: {odd}") from None
    return read
