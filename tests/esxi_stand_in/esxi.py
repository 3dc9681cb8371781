"""What stands behind the stand-in's `esxcli`, `vim-cmd` and `esxtop`."""

import fcntl
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import esxcli
import esxtop
import machines
import start
from forms import Refused

STATE = Path("/var/lib/stand_in.json")


COMMANDS = {"esxcli": esxcli.run, "vim-cmd": machines.run}


def main(name, *words):
    """Run one command on the state; refused, it changes nothing."""
    if name == "new":
        root = Path(words[0])
        (root / STATE.relative_to("/")).write_text(json.dumps(start.state(), indent=1))
        return machines.write_all(root)
    if name == "esxtop":
        return esxtop.run(json.loads(STATE.read_text()), list(words))
    with STATE.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        state = json.load(file)
        try:
            said = COMMANDS[name](state, list(words))
        except Refused as error:
            print(error, file=sys.stderr)
            return 1
        file.seek(0)
        file.truncate()
        json.dump(state, file, indent=1)
    sys.stdout.write(said)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
