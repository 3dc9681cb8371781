"""Several shops at once, each with a driver process of its own; all begin when all are filled."""

from __future__ import annotations

import os
import selectors
import signal
import sys
import traceback
from collections.abc import Callable

Start = Callable[[], None]


def several(number_of_shops: int, drive: Callable[[int, Start], None]) -> int:
    """Drive each; its lines come out behind its number. The worst code is that of all."""
    select = selectors.DefaultSelector()
    ready, gates, children, open_shops = 0, [], [], number_of_shops
    for number in range(number_of_shops):
        lines, gate, child = _begin(number, drive)
        gates.append(gate)
        children.append(child)
        select.register(lines, selectors.EVENT_READ, (number + 1, bytearray()))
    while open_shops:
        for key, _ in select.select():
            number, half = key.data
            part = os.read(key.fd, 1 << 16)
            half += part
            *lines_read, tail = bytes(half).split(b"\n")
            half[:] = tail
            for line in lines_read:
                ready += line == b"ready"
                _say(number, line)
            if not part:
                select.unregister(key.fd)
                open_shops -= 1
        if gates and ready + (number_of_shops - open_shops) >= number_of_shops:
            for gate in gates:
                os.write(gate, b"g")
            gates = []
    return max(_code(number, child) for number, child in enumerate(children, 1))


# One that was killed has said nothing itself.
def _code(number: int, child: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code >= 0:
        return code
    name = signal.Signals(-code).name
    print(f"shop {number}: its customers were killed by {name}", file=sys.stderr, flush=True)
    return 1


def _begin(number: int, drive: Callable[[int, Start], None]) -> tuple[int, int, int]:
    (lines, out), (reader, gate) = os.pipe(), os.pipe()
    child = os.fork()
    if child:
        os.close(out)
        os.close(reader)
        return lines, gate, child
    os.dup2(out, 1)
    os.close(lines)
    os.close(gate)

    def start() -> None:
        print("ready", flush=True)
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
        sys.stdout.flush()
        os._exit(code)


def _say(number: int, line: bytes) -> None:
    print(f"{number} {line.decode('utf-8', 'replace')}", flush=True)
