"""Several shops at once, each with a driver process of its own; all begin when all are filled."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Callable

Start = Callable[[], None]


class ShopOutput(io.TextIOBase):
    """Standard output, with the number of a shop before each line."""

    def __init__(self, number: int) -> None:
        self.number, self.tail = number, ""

    def write(self, text: str) -> int:
        """Print each whole line at once, so that no other shop's comes within it."""
        *lines, self.tail = (self.tail + text).split("\n")
        for line in lines:
            os.write(1, f"{self.number} {line}\n".encode())
        return len(text)


def several(number_of_shops: int, drive: Callable[[int, Start], None]) -> int:
    """Drive each; its lines come out behind its number. The worst code is that of all."""
    # Its reader is at the end once each shop is filled, or gone: who writes has let go of it then.
    reader, writer = os.pipe()
    children = [_begin(number, drive, reader, writer) for number in range(number_of_shops)]
    os.close(writer)
    return max(_code(number, child) for number, child in enumerate(children, 1))


# One that was killed has said nothing itself.
def _code(number: int, child: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code >= 0:
        return code
    name = signal.Signals(-code).name
    print(f"shop {number}: its customers were killed by {name}", file=sys.stderr, flush=True)
    return 1


def _begin(number: int, drive: Callable[[int, Start], None], reader: int, writer: int) -> int:
    if child := os.fork():
        return child
    sys.stdout = ShopOutput(number + 1)

    def start() -> None:
        print("ready", flush=True)
        os.close(writer)
        os.read(reader, 1)

    code = 1
    try:
        drive(number, start)
        code = 0
    except Exception as error:
        print(f"shop {number + 1}: {error}", file=sys.stderr, flush=True)
        if type(error).__module__ == "builtins":
            traceback.print_exc()
    finally:
        os._exit(code)
