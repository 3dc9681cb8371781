# The work of who runs the guests, beside them: a guest's disk is cloned, then another is moved, in turn.
#   tiles_infrastructure FOLDER MIB SECONDS PAUSE
set -eu
cd "$1"
mib=$2 ends=$3 pause=$4
now() { read -r up _ < /proc/uptime; echo "$up"; }
later() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= b) }'; }
copy() { dd if="$1" of="$2" bs=64k iflag=direct oflag=direct conv=fsync 2> /dev/null; }
[ -e disk ] || dd if=/dev/urandom of=disk bs=64k count=$((mib * 16)) conv=fsync 2> /dev/null
ends=$(awk -v a="$(now)" -v b="$ends" 'BEGIN { print a + b }')
does=clone
until later "$(now)" "$ends"; do
    begun=$(now)
    copy disk "$does"
    [ "$does" = clone ] || mv "$does" disk
    later "$(now)" "$ends" || echo "$does $begun $(now)"
    if [ "$does" = clone ]; then rm clone; does=migrate; else does=clone; fi
    sleep "$pause"
done
