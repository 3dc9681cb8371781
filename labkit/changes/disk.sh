# programs: flock
# --- the disk

# The place is found anew each time; only `make_place` makes it.
find_place() {
    for home in "${LABKIT_CHANGES:-}" /var/lib/labkit/changes "${HOME:-}/.local/state/labkit/changes"; do
        [ -n "$home" ] || continue
        if [ -d "$home" ] && [ -w "$home" ]; then return 0; fi
        if [ -n "${LABKIT_CHANGES:-}" ]; then return 1; fi
    done
    return 1
}

make_place() {
    if find_place; then return; fi
    for home in "${LABKIT_CHANGES:-}" /var/lib/labkit/changes "${HOME:-}/.local/state/labkit/changes"; do
        [ -n "$home" ] || continue
        case $home in /var/*) [ "$(id -u)" = 0 ] || continue ;; esac
        if said=$(mkdir -p "$home" 2>&1) && [ -w "$home" ]; then
            durable "${home%/*}"
            return
        fi
        if [ -n "${LABKIT_CHANGES:-}" ]; then break; fi
    done
    fail "the journal has no place: ${said:-$home cannot be written to}"
}

# Not every `sync` takes a name; BusyBox has `fsync` for it.
durable() {
    if said=$(sync "$@" 2>&1); then return 0; fi
    case $said in
        *[Uu]sage* | *operand* | *option*) fsync "$@" 2> /dev/null || sync ;;
        *) return 1 ;;
    esac
}

# A tail without its newline is a frame that was never acted upon.
drop_torn_tail() {
    if [ -s "$1" ] && [ -n "$(tail -c 1 "$1" | tr '\000' x)" ]; then
        whole=$(($(wc -c < "$1") - $(tail -n 1 "$1" | wc -c)))
        said=$(dd if=/dev/null of="$1" bs=1 seek="$whole" 2>&1) || return 1
    fi
}

# The shell's own words are "I/O error" for everything; `tee` says why it cannot write.
append() {
    sum_of "$*"
    if printf 'labkit1 %s %s\n' "$sum" "$*" 2> /dev/null >> "$file"; then return 0; fi
    drop_torn_tail "$file" &&
        said=$(printf 'labkit1 %s %s\n' "$sum" "$*" | tee -a "$file" 2>&1 > /dev/null) && return
    why=$said
    drop_torn_tail "$file"
    said=$why
    return 1
}

# cksum(1) of a line, its end included. Not every BusyBox has it; in the shell it takes its time.
sum_of() {
    if ! command -v cksum > /dev/null; then
        slow_sum "$1"
        return
    fi
    sum=$(
        cksum << line
$1
line
    )
}

slow_sum() {
    crc=0 length=0
    for byte in $(printf '%s\n' "$1" | od -An -v -tu1 | tr '\n' ' '); do
        length=$((length + 1))
        add_byte
    done
    left=$length
    while [ "$left" -gt 0 ]; do
        byte=$((left & 255)) left=$((left >> 8))
        add_byte
    done
    sum="$((crc ^ 0xFFFFFFFF)) $length"
}

# By the polynomial of POSIX, a bit at a time.
add_byte() {
    crc=$((crc ^ byte << 24)) bit=8
    while [ "$bit" -gt 0 ]; do
        crc=$(((crc << 1 ^ (crc >> 31 & 1) * 0x04C11DB7) & 0xFFFFFFFF)) bit=$((bit - 1))
    done
}

# A mark of what is done can wait for the next line; a mark of what is about to be done cannot.
note() { marks="$marks$* "; }

flush() {
    [ "$marks" ] || return 0
    # shellcheck disable=SC2086
    append ${marks% } || return 1
    marks=
}

insist() { note "$@"; flush || fail "the journal cannot be written: $said"; }

# A whole small file, or the old one.
replace() {
    beside "$1" "$2" && durable "$1.new" && said=$(mv -f "$1.new" "$1" 2>&1) && durable "$home"
}

beside() {
    printf '%s\n' "$2" 2> /dev/null > "$1.new" ||
        said=$(printf '%s\n' "$2" | tee "$1.new" 2>&1 > /dev/null)
}

# One at a time. The commands that are run close 9, or what they leave behind would hold the lock.
alone() {
    if command -v flock > /dev/null; then
        exec 9> "$home/lock"
        flock -w 20 9 || fail "another labkit command is at work on this host"
        return
    fi
    host_boot
    tries=0
    until take_turn; do
        tries=$((tries + 1)) holder=${turn#* }
        [ "$tries" -le 20 ] ||
            fail "another labkit command is at work on this host: process ${holder%% *}"
        sleep 1
    done
}

# Where there is no flock, turns have numbers, and a link that is made in one go says whose it is.
# A turn is over when its process has ended, so that no kill can leave it taken.
take_turn() {
    latest_turn
    if turn_is_taken; then return 1; fi
    born_of $$
    mine=$((${latest:-0} + 1))
    ln -s "$boot $$ $born" "$home/$mine.turn" 2> /dev/null || return 1
    # Whoever was slow may have made one that is long past.
    latest_turn
    for one in $found; do [ "$one" -ge "$mine" ] || rm -f "$home/$one.turn"; done
    [ "$latest" = "$mine" ] || { rm -f "$home/$mine.turn"; return 1; }
}

latest_turn() {
    numbers turn
    latest=
    for latest in $found; do :; done
}

turn_is_taken() {
    turn=
    [ -z "$latest" ] || turn=$(readlink "$home/$latest.turn")
    # shellcheck disable=SC2086
    [ "${turn%% *}" = "$boot" ] && is_running ${turn#* }
}

# Sets `born`: when a process began, which tells it from a later one of the same number.
born_of() {
    born=0
    [ -r "/proc/$1/stat" ] && IFS= read -r born 2> /dev/null < "/proc/$1/stat" || return 0
    # shellcheck disable=SC2086
    set -- ${born##*) }
    born=${20:-0}
}

# is_running NUMBER BORN
is_running() { kill -0 "$1" 2> /dev/null && born_of "$1" && [ "$born" = "$2" ]; }
