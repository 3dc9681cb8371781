# Runs each word as a command, all at the same time; prints what each printed, under its number.
there=$(mktemp -d) || exit; trap 'rm -rf "$there"' EXIT
n=0; for one; do
    n=$((n + 1)); sh -c "$one" > "$there/$n" 2> "$there/$n.err" &
    eval "pid$n=$!"
done
i=0; while [ "$i" -lt "$n" ]; do
    i=$((i + 1)); eval "wait \"\$pid$i\"" || { code=$?; cat "$there/$i.err" >&2; exit "$code"; }
done
i=0; while [ "$i" -lt "$n" ]; do
    i=$((i + 1)); [ "$i" = 1 ] || echo "=== sockperf $i ==="
    cat "$there/$i"
done
