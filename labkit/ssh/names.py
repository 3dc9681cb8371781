"""Addresses of a name from this machine's resolver, which would take as long as it likes."""

import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

Addresses = list[tuple[Any, ...]]


class Silent(OSError):
    """No name server has answered in time."""


def addresses(host: str, port: int, family: int, seconds: float) -> Addresses:
    """The addresses that getaddrinfo(3) finds; OSError if there are none, or no answer in time.

    Nothing ends a resolver that waits for its servers: it is left behind in a thread of its own.
    """
    if entries := at_once(host, port, family):
        return entries
    answer: Future[Addresses] = Future()
    threading.Thread(target=_answer, args=(answer, host, port, family), daemon=True).start()
    try:
        return answer.result(seconds)
    except TimeoutError:
        raise Silent(f"no name server answered within {seconds:g} s") from None


def at_once(host: str, port: int, family: int) -> Addresses:
    """Literal addresses need no lookup; returns [] for anything else."""
    with suppress(socket.gaierror, UnicodeError):
        return _ask(host, port, family, socket.AI_NUMERICHOST)
    return []


def _ask(host: str, port: int, family: int, flags: int = 0) -> Addresses:
    # For a text Python loads its tables of all alphabets first, which takes some milliseconds.
    name = host.encode() if host.isascii() else host
    return list(socket.getaddrinfo(name, port, family, socket.SOCK_STREAM, flags=flags))


def _answer(answer: Future[Addresses], host: str, port: int, family: int) -> None:
    try:
        answer.set_result(_ask(host, port, family))
    except (OSError, UnicodeError) as error:
        answer.set_exception(error)
