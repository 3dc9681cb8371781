# programs: taskset
how=$1 gets=$2 sets=$3; shift 3
[ "$how" = each ] || {
    cpu=$(taskset -cp $$) || exit
    cpu=${cpu##*: }; cpu=${cpu%%[,-]*}; taskset -cp "$cpu" $$ >/dev/null || exit; }
while [ "$gets" -gt 0 ]; do "$@" -t get >/dev/null 2>&1 & gets=$((gets - 1)); done
while [ "$sets" -gt 0 ]; do "$@" -t set >/dev/null 2>&1 & sets=$((sets - 1)); done
wait
