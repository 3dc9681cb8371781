"""Acting as root by sudo: the password is sent once, on sudo's input, and only when it asks.

`labkit run` has a terminal, and its kernel has none. A socket in a folder of the user's own leads
from one to the other, for as long as the run lasts; nobody keeps the password.
"""

from __future__ import annotations

import getpass
import importlib
import os
import secrets
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from labkit.errors import BadInput, SudoRefused, Unreachable
from labkit.files.pipe import Channel, Gone

PROGRAMS = ("sudo",)

SECONDS = 8.0
COMMAND_SECONDS = 120.0
"""A command may itself ask a human."""
ASK_SOCKET = "LABKIT_ASK"
LONGEST_ANSWER = 4096
ANSWER_SECONDS = 300.0
# What sudo says, in the C locale, and what to try.
HINTS = {
    "sudo: sh: command not found": "its sudoers looks for sh in the wrong folders (secure_path)",
    "not found": "install sudo there, or log in as root",
    "tty": "its sudoers asks for a terminal (requiretty): take that away for this user",
    "sudoers": "this user has no right to it: add a line for it with visudo",
    "not allowed": "its sudoers allows this user other commands only: allow sh",
    "expired": "the password of this account has expired: set a new one there",
    "incorrect password": "the password is wrong; it was tried once",
}


class Password:
    """A password that is asked for once, when it is first needed, and never shown."""

    def __init__(self, ask: Callable[[], str]) -> None:
        self._ask = ask
        self._known: str | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return "Password()"

    def get(self) -> str:
        """The password; several that ask at the same time wait for one answer."""
        with self._lock:
            if self._known is None:
                self._known = self._ask().rstrip("\n")
            # What follows a line end would be read by root's shell.
            if "\n" in self._known:
                raise BadInput("a password cannot hold the end of a line")
            return self._known

    def forget(self) -> None:
        """Ask again the next time: it was wrong."""
        with self._lock:
            self._known = None


@dataclass(frozen=True)
class Sudo:
    """The means to run a shell script as root, unless the login is root's already."""

    password: Password = field(compare=False)
    token: str = field(default_factory=lambda: secrets.token_hex(8), repr=False, compare=False)

    @classmethod
    def of(cls, login: str, ask: Callable[[], str] | None) -> Sudo:
        """`login`, as user@host, is whose password the keyring is asked for, or the user."""
        return cls(Password(ask or (lambda: _find(login))))

    def line(self, script: str) -> str:
        """The script that runs `script` as root."""
        # It waits for us, so that none of its words comes with those that are read as sudo's.
        inner = shlex.quote(f"echo {self._ready} >&2; read -r go; {script}")
        # -p is our own prompt, so that nothing else is taken for one. There is no telling before
        # whether sudo will ask: it may remember.
        outer = (
            f'LC_ALL=C; export LC_ALL; [ "$(id -u)" = 0 ] && exec sh -c {inner};'
            f" exec sudo -S -p {self._prompt} -- sh -c {inner}"
        )
        return f"exec sh -c {shlex.quote(outer)}"

    def admit(self, channel: Channel, name: str) -> None:
        """Answer sudo's question, if it has one, and have the script begin."""
        content, times, deadline = b"", 0, time.monotonic() + SECONDS
        while f"{self._ready}\n".encode() not in content:
            if content.count(self._prompt.encode()) > times:
                times += 1
                deadline = self._answer(channel, name, times) + SECONDS
            elif channel.lost:
                raise Unreachable(
                    f"{name}: the connection was lost while sudo was asked",
                    hint="nothing was run as root; try again",
                )
            elif channel.ended or len(content) > 1 << 16:
                raise self._refusal(name, content, "")
            elif (seconds := deadline - time.monotonic()) <= 0:
                raise self._refusal(name, content, "it asked in its own words, or not at all")
            else:
                content += channel.recv(seconds)[1]
        with suppress(Gone):  # seen by whoever reads on
            channel.send(b"\n")

    # When it was answered: a human may take a while.
    def _answer(self, channel: Channel, name: str, times: int) -> float:
        if times > 1:
            self.password.forget()
            raise self._refusal(name, b"", "incorrect password")
        with suppress(Gone):  # seen by whoever reads on
            channel.send(self.password.get().encode() + b"\n")
        return time.monotonic()

    def _refusal(self, name: str, content: bytes, reason: str) -> SudoRefused:
        words = content.replace(self._prompt.encode(), b"\n").decode("utf-8", "replace") + reason
        hint = next((HINTS[sign] for sign in HINTS if sign in words), "try `sudo -v` there")
        return SudoRefused(f"{name}: sudo does not give root", said=words, hint=hint)

    @property
    def _prompt(self) -> str:
        return f"labkit-{self.token}-password:"

    @property
    def _ready(self) -> str:
        return f"labkit-{self.token}-ready"


def by_command(role: str, command: str) -> Callable[[], str] | None:
    """A function that runs the user's command here and takes its first line as the password."""
    if not command:
        return None

    def ask() -> str:
        result = subprocess.run(
            shlex.split(command), capture_output=True, text=True, stdin=subprocess.DEVNULL,
            timeout=COMMAND_SECONDS, check=False,
        )  # fmt: skip
        if result.returncode or not result.stdout:
            raise SudoRefused(
                f"{role}: its password_command gave no password", said=result.stderr,
                hint=f"try it here: {command}",
            )  # fmt: skip
        return result.stdout.partition("\n")[0]

    return ask


def _find(login: str) -> str:
    try:
        password = importlib.import_module("keyring").get_password("labkit", login)
    except ImportError:
        password = None
    if password is not None:
        return str(password)
    if (text := asked(login)) is not None:
        return text
    # In a notebook, which papermill may be running, there is no terminal.
    if sys.stdin is not None and sys.stdin.isatty():
        return getpass.getpass(f"[sudo] password of {login}: ")
    raise SudoRefused(
        f"{login}: sudo wants a password, and there is no terminal to ask at",
        hint="keep it with `keyring set labkit " + login + "`, or name a password_command in "
        "lab.toml",
    )


def asked(login: str) -> str | None:
    """The answer of the process that started us; None without such a process or its terminal."""
    if not (path := os.environ.get(ASK_SOCKET, "")):
        return None
    with socket.socket(socket.AF_UNIX) as end, suppress(OSError):
        end.settimeout(ANSWER_SECONDS)
        end.connect(path)
        end.sendall(f"{login}\n".encode())
        content = b""
        while not content.endswith(b"\n") and (part := end.recv(LONGEST_ANSWER)):
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
            os.environ[ASK_SOCKET] = path
            try:
                yield
            finally:
                del os.environ[ASK_SOCKET]


def _answer(listens: socket.socket, passwords: dict[str, str]) -> None:
    with suppress(OSError):
        while True:
            end, _ = listens.accept()
            with end, suppress(OSError, EOFError):
                login = end.recv(LONGEST_ANSWER).decode().strip()
                if login not in passwords:
                    passwords[login] = getpass.getpass(f"[sudo] password of {login}: ")
                end.sendall(f"{passwords[login]}\n".encode())
