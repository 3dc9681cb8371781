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
THIS = '<_this type="{0}">{0}</_this>'
RETURNED = re.compile(r"<returnval[^>]*>([^<]*)</returnval>")
FAULT = re.compile(r"<faultstring>([^<]*)</faultstring>")
NAME = re.compile(r"<name>name</name><val[^>]*>([^<]*)</val>")
LISTED = """\
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

    def ask(self, method: str, kind: str, given: str, this: str = "") -> str:
        """Ask, and return the whole answer."""
        where = f'<_this type="{kind}">{this}</_this>' if this else THIS.format(kind)
        head = {"Content-Type": "text/xml", "SOAPAction": "urn:vim25/6.5", "Cookie": self.cookie}
        self.wire.request("POST", "/sdk", ENVELOPE.format(method, where + given).encode(), head)
        answer = self.wire.getresponse()
        text = answer.read().decode("utf-8", "replace")
        self.cookie = (answer.getheader("Set-Cookie") or self.cookie).partition(";")[0]
        if answer.status != http.client.OK:
            fault = FAULT.search(text)
            raise NoSimulator(f"{method}: {fault[1] if fault else text[:200]}")
        return text

    def at(self, path: str) -> str:
        """The end of an inventory path."""
        given = f"<inventoryPath>{path}</inventoryPath>"
        return _returned(self.ask("FindByInventoryPath", "SearchIndex", given))

    def names(self, kind: str) -> list[str]:
        """The names of all machines of a kind."""
        given = f'<container type="Folder">group-d1</container><type>{kind}</type>'
        view = _returned(self.ask("CreateContainerView", "ViewManager",
                                  f"{given}<recursive>true</recursive>"))  # fmt: skip
        asked = LISTED.format(kind=kind, view=view)
        said = self.ask("RetrievePropertiesEx", "PropertyCollector", asked, "propertyCollector")
        self.ask("DestroyView", "ContainerView", "", view)
        return [unescape(name) for name in NAME.findall(said)]

    def create(self, name: str, folder: str, pool: str) -> None:
        """Have one more machine; it is there when this returns."""
        given = (
            f"<config><name>{escape(name)}</name><guestId>otherGuest</guestId><files><vmPathName>"
            "[LocalDS_0]</vmPathName></files><numCPUs>1</numCPUs><memoryMB>64</memoryMB></config>"
            f'<pool type="ResourcePool">{pool}</pool>'
        )
        self.ask("CreateVM_Task", "Folder", given, folder)


def _returned(text: str) -> str:
    found = RETURNED.search(text)
    if not found:
        raise NoSimulator(f"it returned nothing: {text[:200]}")
    return found[1]


@contextmanager
def simulating(program: str, port: int, hosts: int) -> Iterator[subprocess.Popen[bytes]]:
    """An inventory of `hosts` and no machines, until we leave."""
    words = [program, "-tls=false", "-l", f"127.0.0.1:{port}", "-dc", "1", "-cluster", "1",
             "-host", str(hosts), "-standalone-host", "0", "-vm", "0"]  # fmt: skip
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as vcsim:
        try:
            assert vcsim.stdout
            said = b""
            while READY not in said:
                line = vcsim.stdout.readline()
                said += line
                if not line:
                    raise NoSimulator(f"the simulator ended: {said.decode()[-300:]}")
            yield vcsim
        finally:
            vcsim.kill()


def fill(port: int, names: Iterable[str]) -> None:
    """Create a machine for each name, several at once."""
    every = list(names)

    def some(first: int) -> None:
        session = SoapSession(port)
        folder, pool = session.at("/DC0/vm"), session.at("/DC0/host/DC0_C0/Resources")
        for name in every[first::THREADS]:
            session.create(name, folder, pool)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(some, range(THREADS)))
