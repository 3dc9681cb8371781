await_off() {
    n=0; until [ "$(state)" = "$off" ]; do
        n=$((n + 1)); [ "$n" -lt 120 ] || { echo "it did not shut down in 120 s" >&2; exit 1; }
        sleep 1
    done
}
