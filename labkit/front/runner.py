"""A study run from the front page: `labkit run` in a process of its own, one at a time."""

import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable

from labkit.front.area import Speaker

STOP_CODES = (130, -signal.SIGTERM)
"""Exit codes of a run that was stopped; the latter before it had anything to put back."""
LAST = 4
"""Lines of its last words that are shown if it failed."""


class Runner:
    """Runs one study at a time; `changed` is called when a run began and when it ended."""

    def __init__(self, speaker: Speaker, place_of: Callable[[str], str]) -> None:
        self.speaker, self.where = speaker, place_of
        self.changed: Callable[[], None] = lambda: None
        self.study = ""
        """The study at work; empty if none is."""
        self._process: subprocess.Popen[str] | None = None
        self._stop = False
        self._thread: threading.Thread | None = None

    def press(self, study: str) -> None:
        """Begin this study; stop it if it is at work."""
        if self.study == study:
            self.speaker.say(f"{study}: stopping; settings are put back ...")
            self._stop = True
            self._interrupt()
        elif self.study:
            self.speaker.say(f"{self.study} is at work; stop it first, or wait.", bad=True)
        else:
            self.study, self._stop = study, False
            self._thread = threading.Thread(target=self._through, args=(study,), daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until nothing is at work."""
        if self._thread is not None:
            self._thread.join()

    # It may be stopped before there is a process. A kernel of Jupyter ignores SIGINT between cells,
    # and so would a process that it starts: SIGTERM stops as politely.
    def _interrupt(self) -> None:
        if self._stop and self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def _through(self, study: str) -> None:
        place, last = self.where(study), deque[str](maxlen=LAST)
        words = [sys.executable, "-m", "labkit", "run", study, "--quick", "--where", place]
        self.speaker.say(f"{study} on {place}: beginning ...")
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              errors="replace", start_new_session=True) as process:  # fmt: skip
            self._process = process
            self._interrupt()
            self.changed()
            for line in process.stderr or ():
                last.append(line.rstrip())
                self.speaker.say(f"{study} on {place}: {line.rstrip()}")
        ends = {0: "finished; its answer is on its card."} | dict.fromkeys(STOP_CODES, "stopped.")
        end = ends.get(process.returncode) or "\n".join(["failed", *last])
        self.study, self._process = "", None
        self.changed()
        self.speaker.say(f"{study} on {place}: {end}", bad=process.returncode not in ends)
