"""vcsim, govmomi's simulator of vCenter: started empty, filled and listed by its own SOAP."""

from __future__ import annotations

import http.client
import re
import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from html import escape, unescape

PROGRAMS = ("vcsim",)

THREADS = 4
"""Threads that fill it at once."""
READY = b"GOVC_URL="
ENVELOPE = (
    '<?xml version="1.0"?><e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><e:Body><{0} xmlns="urn:vim25">'
    "{1}</{0}></e:Body></e:Envelope>"
)
TARGET = '<_this type="{0}">{0}</_this>'
RETURN_VALUE = re.compile(r"<returnval[^>]*>([^<]*)</returnval>")
FAULT = re.compile(r"<faultstring>([^<]*)</faultstring>")
NAME = re.compile(r"<name>name</name><val[^>]*>([^<]*)</val>")
LISTING = """\
<specSet><propSet><type>{kind}</type><pathSet>name</pathSet></propSet><objectSet>
<obj type="ContainerView">{view}</obj><skip>true</skip><selectSet xsi:type="TraversalSpec">
<name>all</name><type>ContainerView</type><path>view</path><skip>false</skip></selectSet>
</objectSet></specSet><options/>"""


class NoSimulator(Exception):
    """The simulator did not start, or refused what it was asked."""


class SoapSession:
    """One session, over one connection."""

    def __init__(self, port: int) -> None:
        self.wire = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.cookie = ""
        self.ask("Login", "SessionManager", "<userName>user</userName><password>pass</password>")

    def ask(self, method: str, kind: str, body: str, target: str = "") -> str:
        """Ask, and return the whole answer."""
        place = f'<_this type="{kind}">{target}</_this>' if target else TARGET.format(kind)
        head = {"Content-Type": "text/xml", "SOAPAction": "urn:vim25/6.5", "Cookie": self.cookie}
        self.wire.request("POST", "/sdk", ENVELOPE.format(method, place + body).encode(), head)
        answer = self.wire.getresponse()
        text = answer.read().decode("utf-8", "replace")
        self.cookie = (answer.getheader("Set-Cookie") or self.cookie).partition(";")[0]
        if answer.status != http.client.OK:
            fault = FAULT.search(text)
            raise NoSimulator(f"{method}: {fault[1] if fault else text[:200]}")
        return text

    def at(self, path: str) -> str:
        """The end of an inventory path."""
        body = f"<inventoryPath>{path}</inventoryPath>"
        return _value_in(self.ask("FindByInventoryPath", "SearchIndex", body))

    def names(self, kind: str) -> list[str]:
        """The names of all machines of a kind."""
        body = f'<container type="Folder">group-d1</container><type>{kind}</type>'
        view = _value_in(self.ask("CreateContainerView", "ViewManager",
                                  f"{body}<recursive>true</recursive>"))  # fmt: skip
        request = LISTING.format(kind=kind, view=view)
        answer = self.ask("RetrievePropertiesEx", "PropertyCollector", request, "propertyCollector")
        self.ask("DestroyView", "ContainerView", "", view)
        return [unescape(name) for name in NAME.findall(answer)]

    def create(self, name: str, folder: str, pool: str) -> None:
        """Have one more machine; it is there when this returns."""
        body = (
            f"<config><name>{escape(name)}</name><guestId>otherGuest</guestId><files><vmPathName>"
            "[LocalDS_0]</vmPathName></files><numCPUs>1</numCPUs><memoryMB>64</memoryMB></config>"
            f'<pool type="ResourcePool">{pool}</pool>'
        )
        self.ask("CreateVM_Task", "Folder", body, folder)


def _value_in(text: str) -> str:
    match = RETURN_VALUE.search(text)
    if not match:
        raise NoSimulator(f"it returned nothing: {text[:200]}")
    return match[1]


@contextmanager
def simulating(program: str, port: int, hosts: int) -> Iterator[subprocess.Popen[bytes]]:
    """An inventory of `hosts` and no machines, until we leave."""
    words = [program, "-tls=false", "-l", f"127.0.0.1:{port}", "-dc", "1", "-cluster", "1",
             "-host", str(hosts), "-standalone-host", "0", "-vm", "0"]  # fmt: skip
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as vcsim:
        try:
            assert vcsim.stdout
            output = b""
            while READY not in output:
                line = vcsim.stdout.readline()
                output += line
                if not line:
                    raise NoSimulator(f"the simulator ended: {output.decode()[-300:]}")
            yield vcsim
        finally:
            vcsim.kill()


def fill(port: int, names: Iterable[str]) -> None:
    """Create a machine for each name, several at once."""
    names_all = list(names)

    def create(first: int) -> None:
        session = SoapSession(port)
        folder, pool = session.at("/DC0/vm"), session.at("/DC0/host/DC0_C0/Resources")
        for name in names_all[first::THREADS]:
            session.create(name, folder, pool)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(create, range(THREADS)))
