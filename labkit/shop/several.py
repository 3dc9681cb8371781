"""Several shops at once, each with a driver process of its own; all begin when all are filled."""

from __future__ import annotations

import os
import selectors
import signal
import sys
import traceback
from collections.abc import Callable

Started = Callable[[], None]


def several(many: int, drive: Callable[[int, Started], None]) -> int:
    """Drive each; its lines come out behind its number. The worst code is that of all."""
    select = selectors.DefaultSelector()
    ready, gates, children, left = 0, [], [], many
    for number in range(many):
        lines, gate, child = _begun(number, drive)
        gates.append(gate)
        children.append(child)
        select.register(lines, selectors.EVENT_READ, (number + 1, bytearray()))
    while left:
        for key, _ in select.select():
            number, half = key.data
            part = os.read(key.fd, 1 << 16)
            half += part
            *whole, rest = bytes(half).split(b"\n")
            half[:] = rest
            for line in whole:
                ready += line == b"ready"
                _say(number, line)
            if not part:
                select.unregister(key.fd)
                left -= 1
        if gates and ready + (many - left) >= many:
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


def _begun(number: int, drive: Callable[[int, Started], None]) -> tuple[int, int, int]:
    (lines, out), (closed, gate) = os.pipe(), os.pipe()
    child = os.fork()
    if child:
        os.close(out)
        os.close(closed)
        return lines, gate, child
    os.dup2(out, 1)
    os.close(lines)
    os.close(gate)

    def started() -> None:
        print("ready", flush=True)
        os.read(closed, 1)

    code = 1
    try:
        drive(number, started)
        code = 0
    except Exception as failed:
        print(f"shop {number + 1}: {failed}", file=sys.stderr, flush=True)
        if type(failed).__module__ == "builtins":
            traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _say(number: int, line: bytes) -> None:
    print(f"{number} {line.decode('utf-8', 'replace')}", flush=True)
