"""The machine that labkit runs on, as a host."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import BadInput, HostError, TimedOut
from labkit.host import Completed

LAST_CHANCE_SECONDS = 1.0


@dataclass(frozen=True)
class Local:
    """Runs commands as child processes."""

    name: str = "local"

    def run(
        self, words: tuple[str, ...], *, stdin: bytes = b"", seconds: float = 60.0
    ) -> Completed:
        """Run one command in a process group of its own, which ends with it."""
        if not words or any("\0" in word for word in words):
            raise BadInput(f"{self.name}: {words!r} cannot be a command")
        begun = time.monotonic()
        try:
            code, out, err = self._ended(words, stdin, seconds)
        except FileNotFoundError as missing:
            code, out, err = 127, b"", str(missing).encode()
        except OSError as refused:
            code, out, err = 126, b"", str(refused).encode()
        # As a shell counts: 137 is the end by signal 9.
        code = 128 - code if code < 0 else code
        said, complained = (stream.decode("utf-8", "replace") for stream in (out, err))
        return Completed(self.name, words, code, said, complained, time.monotonic() - begun)

    def _ended(
        self, words: tuple[str, ...], stdin: bytes, seconds: float
    ) -> tuple[int, bytes, bytes]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            words, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
        try:
            out, err = process.communicate(stdin, timeout=seconds)
        except BaseException as ended:
            _end_group(process)
            if isinstance(ended, subprocess.TimeoutExpired):
                raise TimedOut(
                    f"{self.name}: `{shlex.join(words)}` had not ended after {seconds:g} s"
                ) from None
            raise
        return process.returncode, out, err

    def put(self, content: bytes, path: str, mode: int) -> None:
        """Write beside the target, then rename."""
        target = Path(path)
        beside = ""
        try:
            with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
                beside = file.name
                file.write(content)
            os.chmod(beside, mode)
            os.replace(beside, target)
        except OSError as refused:
            raise HostError(f"{self.name}: cannot write {path}", said=str(refused)) from refused
        finally:
            with suppress(OSError):
                os.unlink(beside)

    def get(self, path: str) -> bytes:
        """The bytes of a file."""
        try:
            return Path(path).read_bytes()
        except OSError as refused:
            raise HostError(f"{self.name}: cannot read {path}", said=str(refused)) from refused

    def close(self) -> None:
        """Nothing to let go of."""


# First asked, then told. What left the group may hold the pipes open: nobody waits for it.
def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(LAST_CHANCE_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
