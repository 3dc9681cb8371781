"""The answers of a database or a web server before it, and its refusals."""

from __future__ import annotations

import re
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Optional, Protocol

from labkit.errors import BadInput

Values = tuple[Optional[bytes], ...]  # noqa: UP045
CONNECT_SECONDS = 10.0
ADDRESS = re.compile(r"(?:([\w.-]{1,63})@)?\[?([\w.:%-]+?)\]?:(\d{1,5})", re.ASCII)


class ShopRows(Protocol):
    """The rows of an answer, which may be taken apart only when somebody looks at them."""

    def __len__(self) -> int: ...
    def __getitem__(self, nth: int, /) -> Values: ...
    def __iter__(self) -> Iterator[Values]: ...


class Short(Exception):
    """A purchase that stock does not suffice for: all of it was undone."""


class Refused(Exception):
    """An error of the database; `again`: the same transaction may succeed when it is repeated."""

    def __init__(self, code: str, text: str, again: bool = False) -> None:
        super().__init__(f"{code} {text}".strip())
        self.code, self.again = code, again


@dataclass(frozen=True)
class Listening:
    """The address that a database listens at, and the user who asks it."""

    host: str
    port: int
    user: str = "shop"

    @classmethod
    def of(cls, text: str) -> Listening:
        """From USER@HOST:PORT, where the user may be left out."""
        read = ADDRESS.fullmatch(text)
        if not read or not 0 < int(read[3]) < 1 << 16:
            raise BadInput(f"{text!r} is not an address of a database", hint="USER@HOST:PORT")
        return cls(read[2], int(read[3]), read[1] or cls.user)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Asked(ABC):
    """A connection that a loop of many asks: to a database, or to a web server before it.

    What is given to its socket is sent at once.
    """

    def __init__(self, at: Listening) -> None:
        try:
            self.socket = socket.create_connection((at.host, at.port), CONNECT_SECONDS)
        except OSError as error:
            raise ConnectionError(f"nothing answers at {at}: {error}") from None
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(None)

    @abstractmethod
    def message(self, name: str, values: Sequence[object]) -> bytes:
        """The request, as bytes."""

    @abstractmethod
    def complete(self, content: bytes) -> bool:
        """Whether an answer has come whole."""

    @abstractmethod
    def answer(self, content: bytes) -> ShopRows:
        """The rows of an answer."""

    def last_words(self, content: bytes) -> str:
        """The error in an answer that was cut off, if any."""
        return ""

    def ask(self, name: str, values: Sequence[object]) -> ShopRows:
        """Ask by a prepared statement or a page, and wait for the answer."""
        self.socket.sendall(self.message(name, values))
        return self.receive()

    def receive(self) -> ShopRows:
        """Wait for an answer."""
        content = b""
        while not self.complete(content):
            part = self.socket.recv(1 << 16)
            if not part:
                words = self.last_words(content)
                raise ConnectionError(f"the database closed the connection{words}")
            content += part
        return self.answer(content)

    def close(self) -> None:
        """Leave."""
        self.socket.close()
