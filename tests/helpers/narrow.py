"""A network of our own whose loopback is slow or loses packets; prints what a host was like by it.

unshare --net python narrow.py slow FOLDER MS           1 Mbit/s (tbf), and MS there and back
unshare --net python narrow.py lossy FOLDER LOSS LOGINS  LOSS % of the packets are lost (nftables)
"""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from sshd import known, reached, serving
from wire import delayed

from labkit.errors import LabkitError

PROGRAMS = ("ip", "nft")

# tbf drops what is larger than its burst, as packets of the loopback usually are.
SLOW = "tc qdisc add dev lo root tbf rate 1mbit burst 16kb latency 400ms"
LOSSY = """\
add table inet labkit
add chain inet labkit in {{ type filter hook input priority 0; }}
add rule inet labkit in numgen random mod 100 < {loss} drop
"""
BYTES = 120_000


def taking(action):
    start = time.monotonic()
    found = action()
    return found, time.monotonic() - start


def slow(server, milliseconds):
    subprocess.run(SLOW.split(), check=True)
    with delayed(server.port, milliseconds / 1000) as port:
        public = (server.folder / "host_ed25519.pub").read_text()
        (server.folder / "known_hosts").write_text(known(port, public))
        with reached(server.address(port=port)) as host:
            _, login = taking(lambda: host.check("true"))
            _, one = taking(lambda: host.check("true"))
            content = bytes(n % 251 for n in range(BYTES))
            text = str(server.folder / "there")
            _, up = taking(lambda: host.put(content, text))
            back, down = taking(lambda: host.get(text))
            return {"login": login, "one": one, "up": up, "down": down,
                    "right": back == content, "bytes": BYTES}  # fmt: skip


def lossy(server, loss, logins):
    lost = LOSSY.format(loss=loss)
    subprocess.run(["nft", "-f", "-"], input=lost, text=True, check=True)

    def once(number):
        start = time.monotonic()
        with reached(server.address()) as host:
            try:
                output = host.check("echo", str(number), seconds=60)
            except LabkitError as error:
                return type(error).__name__, str(error), time.monotonic() - start
            return "well" if output == f"{number}\n" else "WRONG", output, time.monotonic() - start

    with ThreadPoolExecutor(logins) as pool:
        return list(pool.map(once, range(logins)))


def main():
    what, folder = {"slow": slow, "lossy": lossy}[sys.argv[1]], Path(sys.argv[2])
    subprocess.run(["ip", "link", "set", "lo", "mtu", "1500", "up"], check=True)
    with serving(folder) as server:
        print(json.dumps(what(server, *map(int, sys.argv[3:]))))


if __name__ == "__main__":
    main()
