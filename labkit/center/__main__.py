"""The command line of what is packed: `make`, `serve`, `ask` and `reboot`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from labkit.center import client, server


def main(verb: str, words: Sequence[str]) -> None:
    """Do as the first word says."""
    if verb == "ask":
        number, hosts, machines = words
        client.ask(hosts.split(","), int(number), machines.split(","))
    elif verb in ("list", "reboot"):
        lines: list[str] = []
        code, reply = client.Asking(words[0], lines, 0, threading.Event()).ask(verb)
        print(code, *reply.get("changes", []), sep="\n")
    elif verb == "make":
        server.make(server.CenterPlace(*words[:5]), int(words[5]), int(words[6]))
    else:
        server.serve(server.CenterPlace(*words[:5]), words[5])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
