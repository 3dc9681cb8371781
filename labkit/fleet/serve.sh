probe=$1 seconds=$2 tries=0; shift 2; exec 3<&0
now() { at=; read -r at _ </proc/uptime; at=${at%.*}; [ "$at" ] || at=$(date +%s); } 2>/dev/null
# What is read to the end is there until the whole of the server has ended.
{ "$@"; echo "it ended with code $?"; } </dev/null 3<&- 2>&1 | { trap '' TERM; exec tail -c 4000 >&2; } & child=$!
trap '' TERM
stop() { kill -TERM 0; sleep 2; kill -KILL 0; }
# Its last words come before we end, unless it is killed, and we with it.
last_words() {
 tries=0
 while kill -0 "$child" 2>/dev/null && [ "$tries" -lt 15 ]; do
  tries=$((tries + 1)); sleep 0.1 2>/dev/null || { sleep 1; return; }
 done
}
now; end=$((at + seconds + 1))
until (eval "exec $probe") >/dev/null 2>&1 </dev/null 3<&-; do
 kill -0 "$child" 2>/dev/null || exit 9
 now; [ "$at" -lt "$end" ] || { stop >/dev/null 2>&1 3<&- & last_words; exit 8; }
 tries=$((tries + 1)); [ "$tries" -lt 5 ] || sleep 0.02 2>/dev/null || sleep 1
done
kill -0 "$child" 2>/dev/null || exit 9
echo ready
{ while read -r _ <&3; do :; done; stop; } >/dev/null 2>&1 & watcher=$!
exec 3<&-; wait "$child"; kill -KILL "$watcher"
