"""Scripts that the host runs while files are copied: POSIX sh and the tools that BusyBox has too.

A folder is entered first and looked at after: where we are cannot be swapped for a link any more.
"""

from __future__ import annotations

from labkit.machine.scripts import beside

PROGRAMS = ("find", "openssl", "tar")

UNIT = 1 << 18
"""The unit that dd counts in."""

START = beside(__file__, "start.sh")

# top rest name temporary mode KiB size sha256 cksum: all of a small file in one go.
SMALL = beside(__file__, "small.sh")

# top rest name stage KiB size units block-units old: what is there of a big file, block by block.
PLAN = beside(__file__, "plan.sh")

# top rest file first-unit units, in the stage: one piece of a big file, and its hash.
PIECE = r"""
into "$1" "$2"; [ -O . ] || no "$2 is not ours"; [ ! -L "./$3" ] || no "$3 is a link"
dd of="./$3" bs=262144 seek="$4" conv=notrunc || exit 9
dd if="./$3" bs=262144 skip="$4" count="$5" 2>/dev/null | sum_of
"""

# top rest stage name mode size
COMMIT = beside(__file__, "commit.sh")

# top rest stage
DROP = r"""into "$1" "$2"; mine "$3"; cd ..; rm -rf "./$3" """

# Whether a link at the very end is followed is the caller's choice.
READABLE = beside(__file__, "readable.sh")

LOOKED = r"""stat -L -c '%s %Y %i %f' "./$3" """

# top rest name follow: kind, then size, time, number and mode of the file.
LOOK = READABLE + r"""echo "$kind"; """ + LOOKED

# top rest name follow units block-units: its hashes alone.
HASHES = READABLE + r"""blocks "./$3" "$5" "$6" """

# A file of the kernel reads otherwise each time: what is sent is what is hashed.
WHOLE = (
    READABLE
    + r"""
all() { cat "./$1" || echo 'not all could be read' >&2; }
if [ -e /dev/fd/0 ]; then { all "$3" | tee /dev/fd/3 | sum_of >&2; } 3>&1 | cat
else all "$3"; sum_of <"./$3" >&2; fi
"""
)

# top rest name follow first-unit units whole: the bytes, and meanwhile their hash, on stderr.
SLICE = (
    READABLE
    + r"""
part() { dd if="./$1" bs=262144 skip="$2" count="$3" 2>/dev/null; }
if [ "$7" ]; then sum_of <"./$3" >&2 & else part "$3" "$5" "$6" | sum_of >&2 & fi
part "$3" "$5" "$6"; wait; exec >&2; """
    + LOOKED
)


# top rest name stage KiB replace: whether a tree can be made ready, and how.
TREE_PLAN = beside(__file__, "tree_plan.sh")

STAGED = r"""
into "$1" "$2"; [ -O . ] || no "$2 is not ours"; shift 2
"""
# top rest names: folders
FOLDERS = STAGED + r"""mkdir -p -- "$@" """
# top rest names: files, from a tar on stdin; then the hash of all of them together
UNPACK = STAGED + r"""tar -xof - || exit 9; cat -- "$@" | sum_of"""
# top rest name: the same for one file, where there is no tar
UNPACK_ONE = STAGED + r"""rm -f -- "$1"; cat >"$1" || exit 9; sum_of <"$1" """
# top rest names
CHECK = STAGED + r"""cat -- "$@" 2>/dev/null | sum_of"""
# The same of files that are read, and need not be ours.
READ = r"""
into "$1" "$2"; shift 2; cat -- "$@" 2>/dev/null | sum_of"""
# top rest mode names
MODES = STAGED + r"""mode=$1; shift; chmod "$mode" "$@" """

# top rest name stage replace
TREE_COMMIT = beside(__file__, "tree_commit.sh")

# top rest: the hash it offers, then in turn names, and a line on each
LIST = r"""
into "$1" "$2"; printf '%s\0' "$kind"
find . -exec sh -c '
 printf "%s\0" "$@"; printf "\0"; stat -c "%f %s %Y" -- "$@"; printf "\0"' sh {} +
"""
# top rest names: all of them one after another, and their hash and sizes on stderr
FETCH = beside(__file__, "fetch.sh")


def words(script: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs one of these scripts."""
    return ("sh", "-c", START + script, "labkit", *arguments)
