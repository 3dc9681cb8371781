# programs: find
[ ! -d /run/labkit/etc ] || [ -e /lib/modules/order ] ||
    grep -q 'User Mode Linux' /proc/cpuinfo || {
    echo 'this setting is of the whole machine, which all hosts of the box share' >&2; exit 1; }
[ "$#" -eq 0 ] || [ -e "$1" ] || { echo "this kernel has no $1" >&2; exit 1; }
[ "$#" -eq 0 ] || [ "$(find "$1" -perm -200)" ] || { echo "$1 is read-only" >&2; exit 1; }
