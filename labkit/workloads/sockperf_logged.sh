log=$(mktemp) || exit; trap 'rm -f "$log"' EXIT
said=$("$@" --full-log "$log" 2>&1) || { code=$?; printf '%s\n' "$said" >&2; exit "$code"; }
awk -F ', *' '/^packet,/ { rows = 1; print "rtt(usec)"; next }
    rows && NF == 4 { print $4; next } { print }' "$log"
