# The work of who runs the guests, beside them: a guest's disk is cloned, then another is moved, in turn.
# It goes on until there is a file `enough`.
#   tiles_infrastructure FOLDER MIB PAUSE
set -eu
cd "$1"
mib=$2 pause=$3
now() { read -r up _ < /proc/uptime; echo "$up"; }
copy() { dd if="$1" of="$2" bs=64k iflag=direct oflag=direct conv=fsync 2> /dev/null; }
[ -e disk ] || dd if=/dev/urandom of=disk bs=64k count=$((mib * 16)) conv=fsync 2> /dev/null
does=clone
until [ -e enough ]; do
    begun=$(now)
    copy disk "$does"
    [ "$does" = clone ] || mv "$does" disk
    echo "$does $begun $(now)"
    if [ "$does" = clone ]; then rm clone; does=migrate; else does=clone; fi
    sleep "$pause"
done
rm enough
