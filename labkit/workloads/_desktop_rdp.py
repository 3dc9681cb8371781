"""Desktops by RDP: xrdp in front of them, and FreeRDP on screens of the client's own.

FreeRDP takes no script. So it runs on a display of Xvnc on the client: a user presses keys there
and sees what FreeRDP draws. The time includes its work, and at most one frame (1/60 s) of that
display.
"""

import hashlib
import secrets
import ssl
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from labkit.host import Host
from labkit.setting import Words
from labkit.workloads import _desktop
from labkit.workloads._own_place import own_folder
from labkit.workloads._server import serving
from labkit.workloads.web import CERTIFICATE, IDENTITY

PROGRAMS = ("openssl", "xfreerdp", "xrdp")

READY_SECONDS = 30
# A client names the section of its desktop as the domain that it logs in to.
GLOBALS = """\
[Globals]
ini_version=1
fork=false
tcp_nodelay=true
security_layer=tls
ssl_protocols=TLSv1.2, TLSv1.3
certificate={folder}/identity.pem
key_file={folder}/identity.pem
allow_channels=true
max_bpp=32
hidelogwindow=true
[Logging]
LogFile={folder}/xrdp.log
LogLevel=WARNING
EnableSyslog=false
[Channels]
"""
SECTION = """\
[desktop{number}]
name=desktop{number}
lib=libvnc.so
username=na
password=ask
ip={address}
port={port}
"""
# A password on the command line could be read by all users of the client.
VIEW = 'exec xfreerdp "$@" /from-stdin:force < secret'


@dataclass(frozen=True)
class RemoteScreen:
    """A screen on the client that shows a desktop of the server."""

    desktop: _desktop.Desktop
    screen: _desktop.Desktop
    port: int
    """Of RDP on the server."""

    @property
    def place(self) -> list[Any]:
        """The screen's address, port and password, and where its pictures come from."""
        return [*self.screen.place, f"{self.desktop.host.address}:{self.port}"]

    def end(self) -> dict[str, Any]:
        """Wait for the end of both; if the screen's has a reason, the other may go on."""
        end = self.screen.end()
        return end if end["why"] else self.desktop.end()


# It asks for addresses of the kind that it has itself (AI_ADDRCONFIG), by IPv6 alone.
def unreachable(server: Host) -> str:
    """Reason why xrdp could connect to no display on this host; empty if it can."""
    listing = server.run("cat", "/proc/net/if_inet6").stdout.splitlines()
    if any(not line.endswith(" lo") for line in listing):
        return ""
    return f"{server.name} has no IPv6 address, without which xrdp reaches no display"


def screens(
    up: ExitStack, desktops: Sequence[_desktop.Desktop | str], client: Host,
    application: _desktop.Application,
) -> list[RemoteScreen | str]:  # fmt: skip
    """Show each desktop on a screen of the client; why one did not come up stays in its place."""
    sources = [desktop for desktop in desktops if not isinstance(desktop, str)]
    if not sources:
        return [desktop for desktop in desktops if isinstance(desktop, str)]
    port, pin = up.enter_context(_bridge(sources))
    viewers = [replace(application, **_viewer(desktop, n, port, pin))
               for n, desktop in enumerate(sources)]  # fmt: skip
    viewed = _desktop.all_up(up, [_desktop.desktop(client, viewer) for viewer in viewers])
    pairs = zip(sources, viewed, strict=True)
    seats = [s if isinstance(s, str) else RemoteScreen(d, s, port) for d, s in pairs]
    return [d if isinstance(d, str) else seats.pop(0) for d in desktops]


@contextmanager
def _bridge(desktops: Sequence[_desktop.Desktop]) -> Iterator[tuple[int, str]]:
    host = desktops[0].host
    folder = f"{own_folder(host)}/desktop-{secrets.token_hex(4)}"
    host.check("mkdir", "-m", "700", folder)
    try:
        identity = host.check("sh", "-c", IDENTITY)
        sections = (SECTION.format(number=n, address=host.address, port=desktop.port)
                    for n, desktop in enumerate(desktops))  # fmt: skip
        text = GLOBALS.format(folder=folder) + "".join(sections)
        host.put(identity.encode(), f"{folder}/identity.pem", 0o600)
        host.put(text.encode(), f"{folder}/xrdp.ini", 0o600)

        def words(port: int) -> Words:
            at = f"tcp://{host.address}:{port}"
            return ("xrdp", "--nodaemon", "--config", f"{folder}/xrdp.ini", "--port", at)

        (certificate,) = CERTIFICATE.findall(identity)
        pin = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).digest().hex(":")
        with serving(host, words, seconds=READY_SECONDS) as port:
            yield port, pin
    finally:
        host.run("rm", "-rf", folder)


def _viewer(desktop: _desktop.Desktop, number: int, port: int, pin: str) -> dict[str, Any]:
    words = (
        "sh", "-c", VIEW, "view", f"/v:{desktop.host.address}:{port}", "/u:labkit",
        f"/d:desktop{number}", f"/cert:deny,fingerprint:sha256:{pin}", f"/size:{_desktop.SIZE}",
        "-decorations", "/bpp:32", "/sec:tls",
    )  # fmt: skip
    return {"words": words, "files": lambda: {"secret": f"{desktop.secret}\n".encode()}}
