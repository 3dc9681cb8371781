"""A machine whose names mean something else now and then; prints what a host said, and where.

unshare --mount python renamed.py FOLDER        FOLDER/address.json is where labhost is known
"""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from sshd import reached

from labkit.errors import LabkitError
from labkit.ssh.address import Address

PROGRAMS = ("mount",)


def main():
    folder = Path(sys.argv[1])
    at = Address(**json.loads((folder / "address.json").read_text()))
    hosts = folder / "hosts"
    hosts.touch()
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
    with reached(at) as host:
        for line in sys.argv[2:]:
            hosts.write_text(line)
            host.close()
            try:
                text = host.check("echo", "here").strip()
                print(json.dumps([text, host.transport.reached_at]))
            except LabkitError as error:
                print(json.dumps([type(error).__name__, str(error)]))


if __name__ == "__main__":
    main()
