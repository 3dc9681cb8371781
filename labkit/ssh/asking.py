"""A password that a process without a terminal asks of the one that started it, and nobody keeps.

`labkit run` has a terminal, and its kernel has none. A socket in a folder of the user's own leads
from one to the other, for as long as the run lasts.
"""

import getpass
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SOCKET = "LABKIT_ASK"
LONGEST = 4096
SECONDS = 300.0


def asked(login: str) -> str | None:
    """The answer of the process that started us; None without such a process or its terminal."""
    if not (path := os.environ.get(SOCKET, "")):
        return None
    with socket.socket(socket.AF_UNIX) as end, suppress(OSError):
        end.settimeout(SECONDS)
        end.connect(path)
        end.sendall(f"{login}\n".encode())
        content = b""
        while not content.endswith(b"\n") and (part := end.recv(LONGEST)):
            content += part
        return content.decode().removesuffix("\n") if content.endswith(b"\n") else None
    return None


@contextmanager
def answering() -> Iterator[None]:
    """Ask the one who sits at this terminal whatever a kernel wants; each login once."""
    if sys.stdin is None or not sys.stdin.isatty():
        yield
        return
    with tempfile.TemporaryDirectory(prefix="labkit-ask-") as folder:
        path = str(Path(folder) / "ask")
        with socket.socket(socket.AF_UNIX) as listens:
            listens.bind(path)
            listens.listen()
            threading.Thread(target=_answer, args=(listens, {}), daemon=True).start()
            os.environ[SOCKET] = path
            try:
                yield
            finally:
                del os.environ[SOCKET]


def _answer(listens: socket.socket, passwords: dict[str, str]) -> None:
    with suppress(OSError):
        while True:
            end, _ = listens.accept()
            with end, suppress(OSError, EOFError):
                login = end.recv(LONGEST).decode().strip()
                if login not in passwords:
                    passwords[login] = getpass.getpass(f"[sudo] password of {login}: ")
                end.sendall(f"{passwords[login]}\n".encode())
