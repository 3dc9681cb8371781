"""pyinfra makes N files on each host of a JSON file what they should be; prints the seconds.

_pyinfra.py HOSTS FOLDER COUNT: imports and logging in are not timed.
"""

import json
import sys
import time
from pathlib import Path

from pyinfra.api import Config, Inventory, State
from pyinfra.api.connect import connect_all
from pyinfra.api.operation import add_op
from pyinfra.api.operations import run_ops
from pyinfra.operations import files

hosts, folder, count = json.loads(Path(sys.argv[1]).read_text()), sys.argv[2], int(sys.argv[3])
known = [
    (
        f"host{n}",
        {"ssh_hostname": "127.0.0.1", "ssh_port": host["port"], "ssh_user": host["user"],
         "ssh_key": host["key"], "ssh_known_hosts_file": host["known_hosts"]},
    )
    for n, host in enumerate(hosts)
]  # fmt: skip
state = State(Inventory((known, {})), Config())
connect_all(state)
begun = time.perf_counter()
for n in range(count):
    for host in state.inventory:
        path = f"{folder}/{host.name}-{n}"
        add_op(state, files.line, path=path, line="^old$", replace="new", host=host)
run_ops(state)
print(json.dumps(time.perf_counter() - begun))
