"""Desktops on a host, each with one application, and the users on a client who look at them."""

import inspect
import io
import json
import secrets
import struct
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.errors import HostError, Unreachable
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.machine.stopping import together
from labkit.setting import Words
from labkit.workloads import _desktop_files as files
from labkit.workloads import _desktop_rfb as rfb
from labkit.workloads import _desktop_serve as serve
from labkit.workloads import _desktop_users as users
from labkit.workloads._own_place import own_folder
from labkit.workloads._sections import read_object
from labkit.workloads._server import serving

PROGRAMS = ("glmark2", "lowriter", "mupdf-gl", "netsurf-gtk", "openscad", "python3")

FILE_KEY = bytes((23, 82, 107, 6, 35, 78, 88, 7))
"""The fixed key of VNC's password files: only the file's mode keeps others from the password."""
SIZE = "800x600"
READY_SECONDS, END_SECONDS, LOOK_SECONDS = 60, 10.0, 0.05
MAIN = f"""import sys
from {users.__name__} import main
main(sys.stdin.read())
"""
NO_PANELS = b"""[General]
showAxes=false
[view]
hideConsole=true
hideEditor=true
hideCustomizer=true
hideErrorLog=true
"""
SETTINGS = ".config/OpenSCAD/OpenSCAD.conf"
DOWN, UP, LINE_DOWN, LINE_UP, ERASE = 0xFF56, 0xFF55, 0xFF54, 0xFF52, 0xFF08
"""Keysyms of Page Down and Page Up, the arrows, and Backspace."""
SCROLL = {"next": (DOWN,), "back": (UP,)}
# glmark2 looks for models beside its own shaders.
GLMARK2 = """\
mkdir -p data/models && mv reducer.obj data/models &&
ln -s /usr/share/glmark2/shaders /usr/share/glmark2/textures data &&
exec glmark2 --data-path data --size 600x600 -b build:model=reducer:duration=9999"""
KIB = {"reader": 120 << 10, "writer": 220 << 10, "browser": 120 << 10}
"""Memory of a desktop with it, measured; of several the programs are shared."""


@dataclass(frozen=True)
class Application:
    """A program of a desktop, the files that it opens, and how a user's hand uses it."""

    words: Words
    files: Callable[[], Mapping[str, bytes]]
    hand: str
    region: int = 400
    """Pixels at a place that change with each frame: more than a pointer or a line of state."""
    keys: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Keysyms by what a user does (`_desktop_users.py`)."""

    kib: int = KIB["reader"]
    settle: float = 0.7
    """Seconds without a new picture, after which it waits for keys; Writer pauses as it starts."""
    click: bool = False
    """Whether it takes keys only once it was clicked into."""

    @property
    def program(self) -> str:
        """The program that a host has to have."""
        return next(word for word in self.words if word != "env" and "=" not in word)

    @property
    def used(self) -> dict[str, Any]:
        """The part of a user's task that is the application's."""
        keys = {name: [*strokes] for name, strokes in self.keys.items()}
        fields = ("hand", "region", "settle", "click")
        return {**{name: getattr(self, name) for name in fields}, "keys": keys}


def _model(name: str) -> Application:
    content = {name: beside(__file__, f"_desktop_{name}").encode(), SETTINGS: NO_PANELS}
    return Application(("openscad", name), lambda: content, "drag", 2000)


APPLICATIONS = {
    "reader": Application(
        ("mupdf-gl", "own.pdf"), lambda: {"own.pdf": files.pages()}, "keys",
        keys={"next": b".", "back": b",", "in": b"+", "out": b"-"},
    ),
    "writer": Application(
        ("env", "SAL_USE_VCLPLUGIN=gen", "lowriter", "--nologo", "--norestore", "own.fodt"),
        files.letter, "keys", region=1000, keys={**SCROLL, "in": b"x", "out": (ERASE,)},
        kib=KIB["writer"], settle=3.0,
    ),
    "browser": Application(
        ("netsurf-gtk", "own.html"), files.web_page, "keys", region=2000,
        keys={**SCROLL, "in": (LINE_DOWN,), "out": (LINE_UP,)}, kib=KIB["browser"], click=True,
    ),
    "scooter": _model("scooter.scad"),
    "shaft": _model("shaft.scad"),
    "reducer": Application(
        ("sh", "-c", GLMARK2), lambda: {"reducer.obj": files.reducer()}, "watch",
    ),
}  # fmt: skip


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


@contextmanager
def desktop(host: Host, application: Application, count: float = 0) -> Iterator[Desktop]:
    """A display that serves RFB; its application begins once a client has connected."""
    folder = f"{own_folder(host)}/desktop-{secrets.token_hex(4)}"
    host.check("mkdir", "-m", "700", folder)
    try:
        secret, cookie = secrets.token_hex(4), secrets.token_bytes(16)
        host.put(rfb.des(FILE_KEY, secret.encode()), f"{folder}/password", 0o600)
        # For any display; Xvnc and the applications read it (Xau's format).
        fields = (b"", b"", b"MIT-MAGIC-COOKIE-1", cookie)
        authority = b"".join(struct.pack(">H", len(part)) + part for part in fields)
        host.put(b"\xff\xff" + authority, f"{folder}/cookie", 0o600)
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


def all_up(
    up: ExitStack, desktops: Sequence[AbstractContextManager[Desktop]]
) -> list[Desktop | str]:
    """Enter all at the same time; in place of one that does not come up stands why."""

    def reach(number: int) -> Desktop | str:
        try:
            return up.enter_context(desktops[number])
        except Unreachable:
            raise
        except HostError as error:
            return f"{error.what}: {error.said}" if error.said else error.what

    return together(reach, range(len(desktops)), len(desktops))


def look(client: Host, task: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The users' program on the client: what it says of a trial."""
    program = f"{own_folder(client)}/desktop-users-{secrets.token_hex(4)}.zip"
    client.put(_archive(), program, 0o644)
    try:
        order = json.dumps(task).encode()
        output = client.check("python3", program, stdin=order, seconds=60 + 5 * seconds)
    finally:
        client.run("rm", "-f", program)
    return trial(output)


# Python runs it as it is, and finds in it what it imports.
def _archive() -> bytes:
    content, package = io.BytesIO(), __package__.replace(".", "/")
    with zipfile.ZipFile(content, "w") as archive:
        for module in (users, rfb):
            name = module.__name__.replace(".", "/")
            archive.writestr(f"{name}.py", inspect.getsource(module))
        for folder in (package, *map(str, Path(package).parents[:-1])):
            archive.writestr(f"{folder}/__init__.py", "")
        archive.writestr("__main__.py", MAIN)
    return content.getvalue()


def trial(line: str) -> dict[str, Any]:
    """A line of the users' program."""
    return read_object(line, "desktops: a trial cannot be read")
