# programs: nc ping ssh-keyscan
n=0; until ping -c 1 -W 1 "$1" >/dev/null 2>&1; do
    n=$((n + 1)); [ "$n" -lt 120 ] || { echo "the guest does not answer at $1" >&2; exit 1; }
    sleep 1; done
greets() {
    if command -v ssh-keyscan >/dev/null; then [ -n "$(ssh-keyscan -T 5 -p "$2" "$1" 2>/dev/null)" ]
    elif command -v nc >/dev/null; then nc -z -w 5 "$1" "$2" >/dev/null 2>&1
    fi
}
end=$(($(date +%s) + 60))
until [ "$2" = 0 ] || greets "$1" "$2" || [ "$(date +%s)" -gt "$end" ]; do sleep 1; done
