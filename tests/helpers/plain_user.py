"""Commands as a user who may do nothing: on no list of the machine, in no group, without root."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from labkit.machine.scripts import beside

PROGRAMS = ("mount", "setpriv", "unshare")

UID, NAME = 64100, "plain"
CHECKOUT = Path(__file__).resolve().parents[2]
# What this user must read may lie in root's home, which is closed; there it is laid open, in mounts
# that nobody else sees. The account is in a list that nobody else sees either.
SCRIPT = beside(__file__, "plain_user_script.sh")


class PlainUser:
    """Runs commands with a home of its own; tests that run at once take different numbers."""

    def __init__(self, home, *, numbers="", uid=UID):
        self.home, self.uid = home, uid
        home.chmod(0o755)
        os.chown(home, uid, uid)
        (home / "passwd").write_text(
            f"{Path('/etc/passwd').read_text()}{NAME}:x:{uid}:{uid}::{home}:/bin/sh\n"
        )
        if numbers:
            (home / "subuid").write_text(f"{NAME}:{numbers}\n")

    def run(self, *words, **more):
        """Run to the end."""
        (self.home / "words").write_text(shlex.join(map(str, words)) + "\n")
        return subprocess.run(self.words(), capture_output=True, text=True, **more)

    def words(self):
        needed = {Path(sys.base_prefix), Path(sys.prefix), CHECKOUT}
        inside = sorted(str(path) for path in needed if path.is_relative_to("/root"))
        closed = "/root" if inside else ""
        return ["unshare", "--mount", "sh", "-c", SCRIPT, "plain",
                str(self.home), closed, str(self.uid), *inside, "--"]  # fmt: skip

    def labkit(self, *words, **more):
        """Run labkit."""
        return self.run(sys.executable, "-m", "labkit", *words, **more)
