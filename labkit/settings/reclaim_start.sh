# programs: perl
verb=$1 guest=$2 mark=$3 on=$4 program=$5
files=$(grep -lsz "$mark" /proc/[0-9]*/cmdline 2>/dev/null)
for file in $files; do
    pid=${file#/proc/}; kill -s KILL "${pid%/*}"
done 2>/dev/null
[ "$on" = yes ] || exit 0
found=$(guest "@$guest" memory) || exit
# shellcheck disable=SC2086
set -- $found
mark=labkit-mem mark=${mark}ory
exec perl -e "$program" "$verb" "$1" "$2" "$mark-$verb-$guest"
