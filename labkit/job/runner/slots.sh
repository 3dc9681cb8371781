# --- files that a full disk cannot lose: their blocks are there before the job begins --------

SLOTS='sup work out err group'

reserve() {
    for slot in "$@"; do
        printf '%4095s\n' '' >"$job/$slot.new" || return 1
        [ $(($(wc -c <"$job/$slot.new"))) -eq 4096 ] || return 1
    done
}

# The first of two that write one slot is kept: its rename leaves nothing to rename.
record() {
    [ -e "$job/$1.new" ] || return 0
    say "$2" 1<>"$job/$1.new"
    durable "$job/$1.new"
    mv "$job/$1.new" "$job/$1" 2>/dev/null && durable "$job"
}

durable() { sync "$@" 2>/dev/null || sync; }

