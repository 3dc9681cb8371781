n=0; while [ "$(wc -l < "$2/csv")" -le "$3" ]; do
    kill -0 "$1" 2>/dev/null || { cat "$2/err" >&2; echo 'esxtop has ended' >&2; exit 1; }
    n=$((n + 1)); [ "$n" -lt 60 ] || { echo 'esxtop prints nothing' >&2; exit 1; }
    sleep 1; done
