"""A desktop for one client, as a program for a host that has Python: Xvnc with one application.

`_desktop_serve.py FOLDER ADDRESS PORT SIZE COUNT WORD...` serves RFB in the foreground. FOLDER is
for this desktop alone, with its `password` and the `cookie` of the display. The application begins
when the client has connected, so that the client sees it begin. If either program ends, the other
one is ended, and `end` in the folder says why. With COUNT seconds Mesa counts the frames that the
application draws. `end` names those of the last
COUNT seconds before the client left.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("Xvnc", "setpriv")

LOOK_SECONDS = 0.01
END_SECONDS = 3.0
ESTABLISHED = "01"
LAST_LINES = 2
RENDERER = re.compile(r"GL_RENDERER:(.*)")
FRAMES = {"GALLIUM_HUD": "frametime", "GALLIUM_HUD_VISIBLE": "false", "vblank_mode": "0"}
"""Mesa writes a line for each frame, and draws nothing of its own. Frames wait for no monitor."""


def connected(port: int) -> bool:
    """Whether a client has a connection to this port, by the kernel's list."""
    lists = (Path("/proc/net", kind) for kind in ("tcp", "tcp6"))
    lines = (line.split() for path in lists if path.exists() for line in path.open())
    return any(line[1].endswith(f":{port:04X}") and line[3] == ESTABLISHED for line in lines)


# Whoever ends this program, even without a word, ends what it started.
@contextmanager
def running(
    words: list[str], log: Path, variables: Mapping[str, str], *pipe: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a session of its own, with one end of a pipe; end all of it afterwards."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *words], cwd=log.parent,
            env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            start_new_session=True, pass_fds=pipe,
        )  # fmt: skip
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
                process.wait(END_SECONDS)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def tail(log: Path) -> str:
    """The last words of a program, in one line: of several, the host's error shows the last."""
    lines = log.read_text("utf-8", "replace").splitlines()
    words = (line.removeprefix("(EE)").strip() for line in lines)
    return "; ".join([line for line in words if line][-LAST_LINES:])


def serve(
    folder: Path, port: int, count: float, server: subprocess.Popen[bytes], words: list[str],
    number: str,
) -> tuple[str, int]:  # fmt: skip
    """Run the application from when the client has connected until either ends or it leaves.

    Returns why it is over, empty if all is well, and the frames of the last `count` seconds.
    """
    display, application = folder / "display.log", folder / "application.log"
    while not connected(port):
        if server.poll() is not None:
            return f"the display did not come up: {tail(display)}", 0
        time.sleep(LOOK_SECONDS)
    places = {"DISPLAY": f":{number}", "XAUTHORITY": f"{folder}/cookie", "HOME": str(folder),
              "XDG_RUNTIME_DIR": str(folder), "LC_ALL": "C.UTF-8"}  # fmt: skip
    frames = {**FRAMES, "GALLIUM_HUD_DUMP_DIR": f"{folder}/hud"} if count else {}
    looks = [(0.0, 0)]
    with running(words, application, {**places, **frames}) as program:
        # In this order: without its display the application ends as well.
        pairs = ((server, "the display", display), (program, words[0], application))
        while connected(port) and all(process.poll() is None for process, *_ in pairs):
            if count:  # Mesa writes a line for each frame, in all contexts that it draws by
                lists = (file.read_bytes().count(b"\n") for file in (folder / "hud").iterdir())
                looks.append((time.monotonic(), sum(lists)))
            time.sleep(LOOK_SECONDS)
        time.sleep(LOOK_SECONDS)  # a connection of a program that dies is closed before it is dead
        ends = [
            f"{title} ended in mid-session with code {code}: {tail(log)}"
            for process, title, log in pairs if (code := process.poll()) is not None
        ]  # fmt: skip
    end, drawn = looks[-1]
    before = [count_then for at, count_then in looks if at <= end - count]
    return ends[0] if ends else "", drawn - before[-1]


def main(folder: Path, address: str, port: int, size: str, count: float, words: list[str]) -> None:
    """Serve once. Xvnc prints the number of its display to a pipe."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    (folder / "hud").mkdir()
    reader, writer = os.pipe()
    xvnc = [
        "Xvnc", "-displayfd", str(writer), "-geometry", size, "-depth", "24",
        "-rfbport", str(port), "-interface", address,
        "-SecurityTypes", "VncAuth", "-PasswordFile", "password", "-auth", "cookie",
        "-nolisten", "tcp", "-AcceptSetDesktopSize=0", "-AlwaysShared",
    ]  # fmt: skip
    with running(xvnc, folder / "display.log", {}, writer) as server:
        os.close(writer)
        number = os.read(reader, 16).decode().strip()
        reason, frames = serve(folder, port, count, server, words, number)
    log = folder / "application.log"
    drawn_by = RENDERER.search(log.read_text("utf-8", "replace")) if log.exists() else None
    renderer = drawn_by[1].strip() if drawn_by else ""
    answer = {"why": reason, "frames": frames, "renderer": renderer}
    (folder / "end.part").write_text(json.dumps(answer))
    (folder / "end.part").rename(folder / "end")
    if reason:
        sys.exit(reason)


if __name__ == "__main__":
    place, at, number, size, seconds, *command_words = sys.argv[1:]
    main(Path(place), at, int(number), size, float(seconds), command_words)
