"""Standard input and output to a TCP port of a box without root: dial.py BOX-FOLDER ADDRESS PORT.

Run by ssh's ProxyCommand. It needs nothing but Python, and enters the namespaces of the box's
keeper unless it is in there already.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import threading

MARK = "LABKIT_ROOTLESS_BOX"
NEW_USER, NEW_NET = 0x10000000, 0x40000000
SECONDS, AT_ONCE = 10.0, 1 << 17


def enter(folder: str) -> None:
    """Go where the box's network is."""
    with open(f"{folder}.keeper") as file:
        pid = int(file.read())
    with open(f"/proc/{pid}/environ", "rb") as environ:
        if f"{MARK}={folder}".encode() not in environ.read().split(b"\0"):
            sys.exit("the box is gone")
    libc = ctypes.CDLL(None, use_errno=True)
    spaces = [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), kind)
              for name, kind in (("user", NEW_USER), ("net", NEW_NET))]  # fmt: skip
    for descriptor, kind in spaces:
        if libc.setns(descriptor, kind):
            sys.exit(f"cannot enter the box: {os.strerror(ctypes.get_errno())}")


def pump(connection: socket.socket) -> None:
    """Carry bytes both ways until the far end closes."""
    threading.Thread(target=toward, args=(connection,), daemon=True).start()
    while content := connection.recv(AT_ONCE):
        while content:
            content = content[os.write(1, content) :]


def toward(connection: socket.socket) -> None:
    """Send everything read to the far end."""
    while content := os.read(0, AT_ONCE):
        connection.sendall(content)
    connection.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    if MARK not in os.environ:
        enter(sys.argv[1])
    with socket.create_connection((sys.argv[2], int(sys.argv[3])), SECONDS) as connection:
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pump(connection)
