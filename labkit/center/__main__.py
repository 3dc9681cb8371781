"""The command line of what is packed: `make`, `serve`, `ask` and `reboot`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from labkit.center import client, server


def main(verb: str, given: Sequence[str]) -> None:
    """Do as the first word says."""
    if verb == "ask":
        wanted, hosts, machines = given
        client.ask(hosts.split(","), int(wanted), machines.split(","))
    elif verb in ("list", "reboot"):
        lines: list[str] = []
        code, said = client.Asking(given[0], lines, 0, threading.Event()).ask(verb)
        print(code, *said.get("changes", []), sep="\n")
    elif verb == "make":
        server.make(server.CenterPlace(*given[:5]), int(given[5]), int(given[6]))
    else:
        server.serve(server.CenterPlace(*given[:5]), given[5])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
