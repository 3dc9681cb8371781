"""Desktops on a host, each with one application, and the users on a client who look at them.

By RDP xrdp is in front of them. FreeRDP takes no script, so it runs on a display of Xvnc on the
client: a user presses keys there and sees what FreeRDP draws. The time includes its work, and at
most one frame (1/60 s) of that display.
"""

import hashlib
import json
import secrets
import ssl
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from labkit.errors import HostError, Unreachable
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.machine.stopping import together
from labkit.setting import Words
from labkit.workloads import _desktop_files as files
from labkit.workloads import _desktop_users as users
from labkit.workloads._own_place import own_file, own_scratch
from labkit.workloads._sections import read_object
from labkit.workloads._server import serving
from labkit.workloads.web import CERTIFICATE, IDENTITY

PROGRAMS = ("glmark2", "lowriter", "mupdf-gl", "netsurf-gtk", "openscad", "openssl", "python3",
            "xfreerdp", "xrdp")  # fmt: skip

FILE_KEY = bytes((23, 82, 107, 6, 35, 78, 88, 7))
"""The fixed key of VNC's password files: only the file's mode keeps others from the password."""
SIZE = "800x600"
READY_SECONDS, END_SECONDS, LOOK_SECONDS = 60, 10.0, 0.05
SETTINGS = ".config/OpenSCAD/OpenSCAD.conf"
DOWN, UP, LINE_DOWN, LINE_UP, ERASE = 0xFF56, 0xFF55, 0xFF54, 0xFF52, 0xFF08
"""Keysyms of Page Down and Page Up, the arrows, and Backspace."""
SCROLL = {"next": (DOWN,), "back": (UP,)}
# A password on the command line could be read by all users of the client.
VIEW = 'exec xfreerdp "$@" /from-stdin:force < secret'


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

    kib: int = 120 << 10
    """Memory of a desktop with it, measured; of several the programs are shared."""
    settle: float = 0.7
    """Seconds without a new picture, after which it waits for keys; Writer pauses as it starts."""
    click: bool = False
    """Whether it takes keys only once it was clicked into."""

    @property
    def program(self) -> str:
        """The program that a host has to have."""
        return next(word for word in self.words if word in PROGRAMS)

    @property
    def used(self) -> dict[str, Any]:
        """The part of a user's task that is the application's."""
        keys = {name: [*strokes] for name, strokes in self.keys.items()}
        fields = ("hand", "region", "settle", "click")
        return {**{name: getattr(self, name) for name in fields}, "keys": keys}


def _model(name: str) -> Application:
    at = {name: f"_desktop_{name}", SETTINGS: "_desktop_openscad.conf"}
    content = {file: beside(__file__, source).encode() for file, source in at.items()}
    return Application(("openscad", name), lambda: content, "drag", 2000)


APPLICATIONS = {
    "reader": Application(
        ("mupdf-gl", "own.pdf"), lambda: {"own.pdf": files.pages()}, "keys",
        keys={"next": b".", "back": b",", "in": b"+", "out": b"-"},
    ),
    "writer": Application(
        ("env", "SAL_USE_VCLPLUGIN=gen", "lowriter", "--nologo", "--norestore", "own.fodt"),
        files.letter, "keys", region=1000, keys={**SCROLL, "in": b"x", "out": (ERASE,)},
        kib=220 << 10, settle=3.0,
    ),
    "browser": Application(
        ("netsurf-gtk", "own.html"), files.web_page, "keys", region=2000,
        keys={**SCROLL, "in": (LINE_DOWN,), "out": (LINE_UP,)}, click=True,
    ),
    "scooter": _model("scooter.scad"),
    "shaft": _model("shaft.scad"),
    "reducer": Application(
        ("sh", "-c", beside(__file__, "_desktop_glmark2.sh"), "glmark2"),
        lambda: {"reducer.obj": files.reducer()}, "watch",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Desktop:
    """One that serves: where, its password, and its folder on the host; or why it does not."""

    host: Host
    port: int = 0
    secret: str = ""
    folder: str = ""
    failed: str = ""
    shows: "Desktop | None" = None
    """The desktop of the server, where this one is only a screen that shows it."""
    source: str = ""
    """The address and port that its pictures come from then."""

    @property
    def place(self) -> list[Any] | str:
        """The address, port and password for a client; or why there are none."""
        at = [self.host.address, self.port, self.secret, *filter(None, [self.source])]
        return self.failed or at

    def end(self) -> dict[str, Any]:
        """Wait for its end: the reason, the frames that it made, and who drew them.

        If a screen's has a reason, the desktop that it shows may go on.
        """
        if self.failed:
            return {"why": self.failed}
        until = time.monotonic() + END_SECONDS
        while not (text := self.host.run("cat", f"{self.folder}/end")).ok:
            if time.monotonic() > until:
                raise HostError(f"{self.host.name}: a desktop did not end", said=text.stderr)
            time.sleep(LOOK_SECONDS)
        answer: dict[str, Any] = json.loads(text.stdout)
        return self.shows.end() if self.shows and not answer["why"] else answer


@contextmanager
def desktop(host: Host, application: Application, count: float = 0) -> Iterator[Desktop]:
    """A display that serves RFB; its application begins once a client has connected."""
    with own_scratch(host, "desktop") as folder:
        secret, cookie = secrets.token_hex(4), secrets.token_bytes(16)
        host.put(users.des(FILE_KEY, secret.encode()), f"{folder}/password", 0o600)
        # For any display; Xvnc and the applications read it (Xau's format).
        fields = (b"", b"", b"MIT-MAGIC-COOKIE-1", cookie)
        authority = b"".join(struct.pack(">H", len(part)) + part for part in fields)
        host.put(b"\xff\xff" + authority, f"{folder}/cookie", 0o600)
        host.put(beside(__file__, "_desktop_serve.py").encode(), f"{folder}/serve.py", 0o644)
        for name, content in application.files().items():
            host.check("mkdir", "-p", str(Path(folder, name).parent))
            host.put(content, f"{folder}/{name}", 0o644)

        def words(port: int) -> Words:
            return ("python3", f"{folder}/serve.py", folder, host.address, str(port), SIZE,
                    str(count), *application.words)  # fmt: skip

        with serving(host, words, seconds=READY_SECONDS) as port:
            yield Desktop(host, port, secret, folder)


def all_up(up: ExitStack, host: Host, applications: Sequence[Application]) -> list[Desktop]:
    """A desktop for each, all at the same time; one that does not come up says why."""

    def reach(application: Application) -> Desktop:
        try:
            return up.enter_context(desktop(host, application))
        except Unreachable:
            raise
        except HostError as error:
            return Desktop(host, failed=f"{error.what}: {error.said}" if error.said else error.what)

    return together(reach, applications, len(applications))


def look(client: Host, task: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The users' program on the client: what it says of a trial."""
    order, content = json.dumps(task).encode(), beside(__file__, "_desktop_users.py").encode()
    with own_file(client, "desktop-users", content, 0o644) as program:
        return trial(client.check("python3", program, stdin=order, seconds=60 + 5 * seconds))


def trial(line: str) -> dict[str, Any]:
    """A line of the users' program."""
    return read_object(line, "desktops: a trial cannot be read")


# --- by RDP -------------------------------------------------------------------------------------


# It asks for addresses of the kind that it has itself (AI_ADDRCONFIG), by IPv6 alone.
def unreachable(server: Host) -> str:
    """Reason why xrdp could connect to no display on this host; empty if it can."""
    listing = server.run("cat", "/proc/net/if_inet6").stdout.splitlines()
    if any(not line.endswith(" lo") for line in listing):
        return ""
    return f"{server.name} has no IPv6 address, without which xrdp reaches no display"


def screens(
    up: ExitStack, desktops: Sequence[Desktop], client: Host, application: Application
) -> list[Desktop]:
    """Show each desktop on a screen of the client; those that failed stay as they are."""
    sources = [seat for seat in desktops if not seat.failed]
    if not sources:
        return [*desktops]
    port, pin = up.enter_context(_bridge(sources))
    viewers = [replace(application, **_viewer(source, number, port, pin))
               for number, source in enumerate(sources)]  # fmt: skip
    viewed, at = iter(all_up(up, client, viewers)), f"{sources[0].host.address}:{port}"
    return [seat if seat.failed else replace(next(viewed), shows=seat, source=at)
            for seat in desktops]  # fmt: skip


# A client names the section of its desktop as the domain that it logs in to.
@contextmanager
def _bridge(desktops: Sequence[Desktop]) -> Iterator[tuple[int, str]]:
    host = desktops[0].host
    with own_scratch(host, "desktop") as folder:
        identity = host.check("sh", "-c", IDENTITY)
        sections = "".join(
            f"[desktop{number}]\nname=desktop{number}\nlib=libvnc.so\nusername=na\npassword=ask\n"
            f"ip={host.address}\nport={source.port}\n" for number, source in enumerate(desktops)
        )  # fmt: skip
        common = beside(__file__, "_desktop_xrdp.ini").format(folder=folder)
        host.put(identity.encode(), f"{folder}/identity.pem", 0o600)
        host.put(f"{common}{sections}".encode(), f"{folder}/xrdp.ini", 0o600)

        def words(port: int) -> Words:
            at = f"tcp://{host.address}:{port}"
            return ("xrdp", "--nodaemon", "--config", f"{folder}/xrdp.ini", "--port", at)

        (certificate,) = CERTIFICATE.findall(identity)
        pin = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).digest().hex(":")
        with serving(host, words, seconds=READY_SECONDS) as port:
            yield port, pin


def _viewer(desktop: Desktop, number: int, port: int, pin: str) -> dict[str, Any]:
    words = (
        "sh", "-c", VIEW, "view", f"/v:{desktop.host.address}:{port}", "/u:labkit",
        f"/d:desktop{number}", f"/cert:deny,fingerprint:sha256:{pin}", f"/size:{SIZE}",
        "-decorations", "/bpp:32", "/sec:tls",
    )  # fmt: skip
    return {"words": words, "files": lambda: {"secret": f"{desktop.secret}\n".encode()}}
