# programs: pgrep
pids=$(pgrep -x "$1") || { echo "no process is called $1" >&2; exit 1; }
for pid in $pids; do
    sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/"$pid"/task/*/status 2>/dev/null
done | sort -u
