gets=$1 sets=$2; shift 2
while [ "$gets" -gt 0 ]; do "$@" -t get >/dev/null 2>&1 & gets=$((gets - 1)); done
while [ "$sets" -gt 0 ]; do "$@" -t set >/dev/null 2>&1 & sets=$((sets - 1)); done
wait
