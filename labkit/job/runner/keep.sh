# --- output: the first and the last of it, in files named by the offset that they begin at ------

# A segment is closed when it has `span` bytes; half of the cap is for the first of them.
keep() {
    me "$1"
    span=$((cap / 16)) block=65536
    if [ $((span / 2)) -lt $block ]; then block=$((span / 2)); fi
    reads=$((span / 2 / block)) at=0 first=0 last='' sum=0
    while :; do
        segment=$(printf '%s/%s.%015d' "$job" "$1" "$at")
        size=0
        while [ "$size" -lt "$span" ]; do
            before=$size
            # One read, one write: what the workload prints can be seen at once.
            dd bs=$block count=$reads 2>/dev/null >>"$segment" || drain "$1"
            size=$(($(wc -c <"$segment")))
            [ "$size" -gt "$before" ] || return 0
        done
        if [ "$last" ] || [ $((first + size)) -gt $((cap / 2)) ]; then
            last="$last $at:$size" sum=$((sum + size))
            prune "$1"
        else
            first=$((first + size))
        fi
        at=$((at + size))
    done
}

prune() {
    while [ "$sum" -gt $((cap / 2 - 2 * span)) ]; do
        last=${last# }
        oldest=${last%% *}
        case $last in *' '*) last=${last#* } ;; *) last= ;; esac
        rm -f "$(printf '%s/%s.%015d' "$job" "$1" "${oldest%:*}")"
        sum=$((sum - ${oldest#*:}))
    done
}

# No space: the workload goes on, and what can no more be kept is counted.
drain() {
    say '0' 1<>"$job/$1.full.new"
    mv "$job/$1.full.new" "$job/$1.full"
    say "$(($(wc -c)))" 1<>"$job/$1.full"
    exit 0
}

