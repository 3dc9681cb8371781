"""Commands as a user who may do nothing: on no list of the machine, in no group, without root."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

PROGRAMS = ("mount", "setpriv", "unshare")

UID, NAME = 64100, "plain"
CHECKOUT = Path(__file__).resolve().parents[2]
# What this user must read may lie in root's home, which is closed; there it is laid open, in mounts
# that nobody else sees. The account is in a list that nobody else sees either.
SCRIPT = """\
set -e
home=$1 closed=$2 uid=$3; shift 3
while [ "$1" != -- ]; do
    mkdir -p "$home/.kept$1"
    mount --bind "$1" "$home/.kept$1"
    set -- "$@" "$1"
    shift
done
shift
if [ "$closed" ]; then
    mount -t tmpfs -o mode=0755 tmpfs "$closed"
    for place; do mkdir -p "$place"; mount --rbind "$home/.kept$place" "$place"; done
fi
# A list that is replaced takes along what is mounted on it, so the whole folder is.
mkdir -p "$home/.etc"
mount -t tmpfs tmpfs "$home/.etc"
cp -a /etc/. "$home/.etc"
cp "$home/passwd" "$home/.etc/passwd"
[ ! -e "$home/subuid" ] || cp "$home/subuid" "$home/.etc/subuid"
[ ! -e "$home/subuid" ] || cp "$home/subuid" "$home/.etc/subgid"
mount --bind "$home/.etc" /etc
cd "$home"
exec setpriv --reuid="$uid" --regid="$uid" --clear-groups --inh-caps=-all \\
    env -i HOME="$home" LABKIT_OUT="$home/out" PATH="$PATH" sh "$home/words"
"""


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
