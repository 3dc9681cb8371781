echo message; exec 3<&0
while read -r when && [ "$when" = t ]; do date +%s.%N; done; [ "$when" ] || exit 0
begun=$(date +%s.%N)
"$@" </dev/null 3<&- & child=$!
trap '' TERM
{ cat <&3; kill -TERM 0; sleep 2; kill -KILL 0; } >/dev/null 2>&1 & watcher=$!
exec 3<&-; wait "$child"; code=$?; kill -KILL "$watcher"
printf '\n%s\n' "$begun" >&2; exit "$code"
