"""What the host runs while files are copied: POSIX sh and the tools that BusyBox has too.

A folder is entered first and looked at after: where we are cannot be swapped for a link any more.
"""

from __future__ import annotations

PROGRAMS = ("find", "openssl", "tar")

UNIT = 1 << 18
"""What dd counts in."""

START = r"""
LC_ALL=C; export LC_ALL; umask 077; unset CDPATH
no() { printf '%s\n' "$*" >&2; exit 9; }
if command -v openssl; then kind=sha256; sum_of() { openssl dgst -sha256 -r; }
elif command -v sha256sum; then kind=sha256; sum_of() { sha256sum; }
else kind=cksum; sum_of() { cksum; }; fi >/dev/null 2>&1
into() {
 cd -P "$1" || exit 9
 [ "$2" ] || return 0
 top=$(pwd -P; echo .); top=${top%??}; [ "$top" != / ] || top=
 cd -P "./$2" || exit 9
 [ "$(pwd -P; echo .)" = "$top/$2
." ] || no "a folder on the way is a link, and links are not followed"
}
mine() { cd -P "./$1" && [ -O . ] || no "$1 is gone, or not ours"; }
target() {
 [ ! -L "./$1" ] || no "it is a link, and links are not followed"
 [ ! -d "./$1" ] || no "it is a directory"
 [ ! -e "./$1" ] || [ -f "./$1" ] || no "it is no regular file"
}
room() {
 [ -w . ] || no "no permission to write there, or the file system is read-only"
 free=$(df -Pk . 2>/dev/null | sed -n '2s/.* \([0-9][0-9]*\)  *[0-9][0-9]*% .*/\1/p')
 [ -z "$free" ] || [ "$free" -ge "$1" ] || no "it needs $1 KiB and $free KiB are free"
}
kept() { sync "$1" 2>/dev/null || fsync "$1" 2>/dev/null || sync; }
blocks() {
 i=0; while [ "$i" -lt "$2" ]; do
  dd if="$1" bs=262144 skip="$i" count="$3" 2>/dev/null | sum_of; i=$((i + $3)); done
}
place() {
 case $(mv -T 2>&1) in *'nvalid opt'*|*'nrecognized opt'*|*'llegal opt'*) mv -f "$1" "$2";;
 *) mv -fT "$1" "$2";; esac || exit 9
}
"""

# top rest name temporary mode KiB size sha256 cksum: all of a small file in one go.
SMALL = r"""
into "$1" "$2"; target "$3"; room "$6"
trap 'rm -f "./$4"' EXIT; trap 'exit 9' HUP INT PIPE TERM
(set -C; : >"./$4") && cat >"./$4" || exit 9
[ "$(wc -c <"./$4")" -eq "$7" ] || no "not all of it arrived"
set -- "$@" $(sum_of <"./$4")
[ "${10}" = "$8" ] || [ "$kind ${10}" = "cksum $9" ] || no "it arrived damaged"
chmod "$5" "./$4" || exit 9
kept "./$4"; target "$3"; place "./$4" "./$3"; kept .
echo "$kind"
"""

# top rest name stage KiB size units block-units old: what is there of a big file, block by block.
PLAN = r"""
into "$1" "$2"; target "$3"
find . ! -name . -prune -name "${4%-*}-*" -mtime +2 -exec rm -rf {} + 2>/dev/null
echo "$kind"
if [ "$9" ] && [ -f "./$3" ] && [ ! -d "./$4" ] && [ "$(wc -c <"./$3")" -eq "$6" ]; then
 echo target; blocks "./$3" "$7" "$8"; exit 0; fi
if [ -d "./$4" ] && [ ! -L "./$4" ]; then
 mine "$4"; [ -e part ] || : >part
 [ ! -L part ] && [ -f part ] && [ -O part ] || no "$4/part is not ours"
 room $(($5 - $(du -k part | cut -f 1)))
 echo part; blocks part $((($(wc -c <part) + 262143) / 262144)) "$8"
else room "$5"; mkdir "./$4" && cd -P "./$4" && : >part || exit 9; fi
"""

# top rest file first-unit units, in the stage: one piece of a big file, and its hash.
PIECE = r"""
into "$1" "$2"; [ -O . ] || no "$2 is not ours"; [ ! -L "./$3" ] || no "$3 is a link"
dd of="./$3" bs=262144 seek="$4" conv=notrunc || exit 9
dd if="./$3" bs=262144 skip="$4" count="$5" 2>/dev/null | sum_of
"""

# top rest stage name mode size
COMMIT = r"""
into "$1" "$2"; target "$4"; mine "$3"
[ "$(wc -c <part)" -eq "$6" ] || no "not all of it arrived"
chmod "$5" part || exit 9
kept part; place part "../$4"; cd ..; kept .; rm -rf "./$3"
"""

# top rest stage
DROP = r"""into "$1" "$2"; mine "$3"; cd ..; rm -rf "./$3" """

# Whether a link at the very end is followed is the caller's choice.
READABLE = r"""
into "$1" "$2"
[ "$4" ] || [ ! -L "./$3" ] || no "it is a link, and links are not followed"
[ -e "./$3" ] || no "no such file"
[ ! -d "./$3" ] || no "it is a directory"
[ -f "./$3" ] || no "it is no regular file"
[ -r "./$3" ] || no "no permission to read it"
"""

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
TREE_PLAN = r"""
into "$1" "$2"
[ ! -L "./$3" ] || no "it is a link, and links are not followed"
[ ! -e "./$3" ] || [ -d "./$3" ] || no "it is there and is no folder"
[ ! -e "./$3" ] || [ "$6" ] || no "it is there already"
find . ! -name . -prune -name "${4%-*}-*" -mtime +2 -exec rm -rf {} + 2>/dev/null
echo "$kind"; if command -v tar >/dev/null 2>&1; then echo tar; else echo cat; fi
if [ -d "./$4" ] && [ ! -L "./$4" ]; then
 mine "$4"; room $(($5 - $(du -ks . | cut -f 1))); echo again
else room "$5"; mkdir "./$4" || exit 9; fi
"""

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
TREE_COMMIT = r"""
into "$1" "$2"; [ ! -L "./$3" ] || no "it is a link, and links are not followed"
sync -f "./$4" 2>/dev/null || sync
if [ -e "./$3" ]; then
 [ "$5" ] || no "it is there already"
 rm -rf "./$4.old"; (place "./$3" "./$4.old") || exit 9
 (place "./$4" "./$3") || { mv "./$4.old" "./$3"; exit 9; }
 rm -rf "./$4.old"
else place "./$4" "./$3"; fi
kept .
"""

# top rest: the hash it offers, then in turn names, and a line on each
LIST = r"""
into "$1" "$2"; printf '%s\0' "$kind"
find . -exec sh -c '
 printf "%s\0" "$@"; printf "\0"; stat -c "%f %s %Y" -- "$@"; printf "\0"' sh {} +
"""
# top rest names: all of them one after another, and their hash and sizes on stderr
FETCH = r"""
into "$1" "$2"; shift 2
cat -- "$@" 2>/dev/null | sum_of >&2 &
cat -- "$@" || exit 9
wait; exec >&2; stat -c '%f %s %Y' -- "$@"
"""


def words(script: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs one of these scripts."""
    return ("sh", "-c", START + script, "labkit", *arguments)
