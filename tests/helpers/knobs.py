"""Files as knobs of a host, and the host's script run by hand, for the tests of settings."""

import atexit
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from labkit.changes import journal
from labkit.changes.in_force import applied
from labkit.changes.journal_lines import decoded, encoded
from labkit.host import Host
from labkit.setting import Setting, Way
from labkit.transports.local import Local

SCRIPT = Path(tempfile.mkdtemp(prefix="labkit-script-"), "changes.sh")
SCRIPT.write_text(journal.script())
atexit.register(shutil.rmtree, SCRIPT.parent, ignore_errors=True)
WRITES = '[ ! -e "$1.stuck" ] || { echo "no more"; exit 1; }; echo "$2" > "$1"'


@dataclass(frozen=True)
class Knob(Setting):
    """A file that holds a value; while FILE.stuck is there it takes no writes."""

    role: ClassVar[str] = "server"
    path: str
    value: str
    more: tuple = ()

    @property
    def thing(self):
        return self.path

    @property
    def wanted(self):
        return self.value

    def way(self, kind, host):
        writes = ("sh", "-c", WRITES, "sh", self.path)
        return Way(("cat", self.path), lambda value: ((*writes, value),), **dict(self.more))


def refused(error, match, wanted, hosts):
    """Nothing may be done under these settings: they are refused with these words."""
    with pytest.raises(error, match=match) as found, applied(wanted, hosts):
        pytest.fail("the body must not run")
    return found.value


OLD, NEW = (dict.fromkeys(("a", "b"), f"{value}\n") for value in ("old", "new"))
HERE = Host("here", "127.0.0.1", Local())


@dataclass(frozen=True)
class Bench:
    """A folder with knobs, all `old` at first, and a journal of its own."""

    folder: Path
    names: tuple = ("a", "b")

    def knob(self, name, value="new", **more):
        return Knob(str(self.folder / name), value, tuple(more.items()))

    @property
    def changes(self):
        return self.folder / "changes"

    def reset(self):
        subprocess.run(["rm", "-rf", self.changes], check=True)
        for name in self.names:
            (self.folder / name).write_text("old\n")
            (self.folder / f"{name}.stuck").unlink(missing_ok=True)

    def values(self):
        return {name: (self.folder / name).read_text() for name in self.names}

    def left(self):
        return sorted(path.name for path in self.changes.glob("*.open"))

    def lines(self, *kinds):
        """What `change` is given to make every knob `new`."""
        found = []
        for name in self.names:
            file = self.folder / name
            undo, make = (f"echo {value} > {file}" for value in ("old", "new"))
            found.append(("hold", name, "old\n", "0", "0", f"cat {file}", undo))
            found.append(("make", name, "new", None, "0", "0", make))
        return sorted(
            (line for line in found if line[0] in kinds), key=lambda line: line[0] != "hold"
        )

    def run(self, verb, *words, token="t1", flags="first", lines=(), script=SCRIPT, before=()):
        """One verb of the script, as labkit would ask for it."""
        me = ("as", token, "me", "here", "1", token, "boot", "study", "900", "3", flags)
        payload = "".join(" ".join(map(encoded, line)) + "\n" for line in (me, *lines))
        return subprocess.run(
            [*before, "sh", str(script), verb, "m", *words], input=payload, text=True,
            capture_output=True, start_new_session=True,
            env={**os.environ, "LABKIT_CHANGES": str(self.changes), "LC_ALL": "C"},
        )  # fmt: skip

    def shown(self, looks):
        """By thing what `show` says of these lines: a word, a text, and what runs."""
        said = self.run("show", lines=[("show", *look) for look in looks]).stdout.splitlines()
        rows = [line.split(" ")[2:] for line in said]
        # It introduces itself to each verb; here that is one more look.
        return {thing: (word, decoded(text), live) for thing, word, text, live in rows
                if thing in {look[0] for look in looks}}  # fmt: skip

    def apply(self, **asked):
        return self.run("change", lines=[("set", "new"), *self.lines("hold", "make")], **asked)

    def restore(self, **asked):
        return self.run("restore", "all", **{"token": "t2", **asked})
