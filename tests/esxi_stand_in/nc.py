"""The stand-in's `nc`: ESXi's own can try a port, which Debian's BusyBox cannot."""

import socket
import sys
from argparse import ArgumentParser


def main(words):
    """`nc -z [-w SECONDS] HOST PORT`: 0 where something listens there."""
    asked = ArgumentParser(prog="nc")
    asked.add_argument("-z", action="store_true", required=True)
    asked.add_argument("-w", type=float, metavar="SECONDS")
    asked.add_argument("host")
    asked.add_argument("port", type=int)
    one = asked.parse_args(words)
    try:
        socket.create_connection((one.host, one.port), timeout=one.w).close()
    except OSError:
        return 1
    print(f"Connection to {one.host} {one.port} port [tcp/*] succeeded!")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
