"""The shop by its web pages: asked by the driver as a database is, and served by a small program.

Each page asks the database as the direct way does. A purchase looks up its prices by itself: an
order takes one page to log in, one for each search, and one to buy.
"""

from __future__ import annotations

import html
import queue
import re
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

from labkit.shop.answers import Asked, Listening, Refused, ShopRows, Short
from labkit.shop.postgres import Postgres
from labkit.shop.stock import CUSTOMER, tax

HEAD_END = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
ROW, CELL = re.compile(rb"<tr>(.*?)</tr>"), re.compile(rb"<td>(.*?)</td>")
TITLE = re.compile(rb"<title>(.*?)</title>")
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "login": ("username", "password"),
    "new": CUSTOMER,
    "category": ("of", "most"),
    "actor": ("words", "most"),
    "title": ("words", "most"),
    "buy": ("customer", "ref", "ids", "quantities"),
}
NUMBERS = ("of", "most", "customer", "ref", "age", "income")
CODES = {Short: 409, Refused: 500}
RETRY = 503


class Web(Asked):
    """One connection to the web server of a shop."""

    parameters: ClassVar[Mapping[str, tuple[str, ...]]] = PARAMETERS

    def __init__(self, at: Listening) -> None:
        super().__init__(at)
        self.host = str(at)

    def message(self, name: str, values: Sequence[object]) -> bytes:
        """The page that asks it."""
        texts = [
            ",".join(map(str, value)) if isinstance(value, list) else str(value) for value in values
        ]
        query = urlencode(dict(zip(self.parameters[name], texts)))  # noqa: B905
        return f"GET /{name}?{query} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode()

    def complete(self, content: bytes) -> bool:
        """Whether the page has come whole."""
        head = content.find(HEAD_END)
        length = LENGTH.search(content, 0, head + 2) if head >= 0 else None
        return bool(length and len(content) >= head + 4 + int(length[1]))

    def answer(self, content: bytes) -> ShopRows:
        """The rows of a page; a page with another code than 200 is what it stands for."""
        code = content[9:12].decode("ascii", "replace")
        title = TITLE.search(content)
        if code != "200":
            text = title[1].decode("utf-8", "replace") if title else "no title"
            if code == f"{CODES[Short]}":
                raise Short(text)
            raise Refused(f"HTTP {code}", text, again=code == f"{RETRY}")
        return [tuple(CELL.findall(row)) for row in ROW.findall(content)]


class Pages(BaseHTTPRequestHandler):
    """Answers a page, over a connection to the database that nobody else uses meanwhile."""

    protocol_version = "HTTP/1.1"
    databases: queue.Queue[Postgres]
    parameters: ClassVar[Mapping[str, tuple[str, ...]]] = PARAMETERS

    @staticmethod
    def page(database: Postgres, name: str, given: Mapping[str, str]) -> ShopRows:
        """The rows of a page."""
        values = [
            int(given[parameter]) if parameter in NUMBERS else given[parameter]
            for parameter in PARAMETERS[name]
        ]
        if name != "buy":
            return database.ask(name, values)
        buyer, ref = values[:2]
        ids, quantities = ([int(word) for word in str(part).split(",")] for part in values[2:])
        quantity_of = dict(zip(ids, quantities))  # noqa: B905
        prices = database.ask("prices", [ids])
        net = sum(int(cost or 0) * quantity_of[int(content or 0)] for content, cost in prices)
        tax_sum = tax(net)
        return database.ask("purchase", [buyer, net, tax_sum, net + tax_sum, ref, ids, quantities])

    def do_GET(self) -> None:
        """Serve one page."""
        parts = urlsplit(self.path)
        name, parameters = parts.path.strip("/"), parse_qs(parts.query, keep_blank_values=True)
        database = self.databases.get()
        try:
            if name not in self.parameters:
                return self._say(404, "no such page", [])
            rows = self.page(
                database, name, {word: values[0] for word, values in parameters.items()}
            )
            self._say(200, name, rows)
        except (Short, Refused) as no:
            is_retry = isinstance(no, Refused) and no.again
            self._say(RETRY if is_retry else CODES[type(no)], str(no), [])
        except (OSError, KeyError, ValueError) as wrong:
            self._say(500, f"{type(wrong).__name__}: {wrong}", [])
        finally:
            self.databases.put(database)

    def log_message(self, *_: Any) -> None:
        """Say nothing of each request."""

    def _say(self, code: int, title: str, rows: ShopRows) -> None:
        cells = "".join(
            "<tr>" + "".join(f"<td>{html.escape((cell or b'').decode())}</td>" for cell in row)
            + "</tr>" for row in rows
        )  # fmt: skip
        page = (f"<!doctype html><html><head><title>{html.escape(title)}</title></head>"
                f"<body><table>{cells}</table></body></html>").encode()  # fmt: skip
        head = (f"HTTP/1.1 {code} {'OK' if code == 200 else 'no'}\r\nContent-Type: text/html\r\n"
                f"Content-Length: {len(page)}\r\n\r\n")  # fmt: skip
        self.wfile.write(head.encode() + page)


def serve(at: Listening, databases: Sequence[Postgres], pages: type[Pages] = Pages) -> None:
    """Serve pages until somebody ends it; as many at once as there are databases."""
    free: queue.Queue[Postgres] = queue.Queue()
    for database in databases:
        free.put(database)
    handler = type("Own", (pages,), {"databases": free})
    with _Server((at.host, at.port), handler) as server:
        server.serve_forever()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    disable_nagle_algorithm = True
