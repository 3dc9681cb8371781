# programs: chrt setsid taskset
work='printf labkit-awake > /proc/self/comm; while :; do :; done'
[ ! -e /proc/exitcode ] || work='dd if=/dev/zero of=/dev/null bs=1M; :'
# shellcheck disable=SC2086
[ "$1" != all ] || set -- $cpus
mark=labkit-aw mark=${mark}ake
for cpu; do
    only="taskset -c $cpu"
    [ " $cpu" != "$cpus" ] || only=
    $only setsid -f chrt -i 0 sh -c "$work" "$mark-" </dev/null >/dev/null 2>&1
done
