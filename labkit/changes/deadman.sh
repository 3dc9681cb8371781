# programs: flock
# --- a dead-man for changes that can cut the way to this host

arm() {
    if [ -e "$home/$number.armed" ]; then return; fi
    encode "${SSH_CONNECTION:-}"
    replace "$home/$number.armed" "$deadman $$ $code" && append armed "$deadman" && durable "$file" ||
        fail "the journal cannot be written: $said"
    detached deadman "$number" || fail "no process can stay on this host to put the change back"
    answer armed "$deadman"
}

# Whoever still holds the lock when time is over hangs in the very change that cut us off.
deadman() {
    number=$1
    read -r deadman holder rest < "$home/$number.armed" || exit
    echo ready
    exec > /dev/null
    while [ "$deadman" -gt 0 ]; do
        sleep 1
        [ -e "$home/$number.armed" ] || exit
        deadman=$((deadman - 1))
    done
    if somebody_works; then
        kill -KILL "-$holder" 2> /dev/null || kill -KILL "$holder" 2> /dev/null
    fi
    alone
    if [ -e "$home/$number.armed" ]; then restore_set "$home/$number.open"; fi
}

somebody_works() {
    if command -v flock > /dev/null; then
        ! flock -n "$home/lock" true
    else
        host_boot
        latest_turn
        turn_is_taken
    fi
}

# Only a connection that was made after the change shows that one can still be made.
confirm() {
    make_place
    alone
    if [ ! -e "$home/$1.armed" ]; then answer late; finish 1; fi
    IFS= read -r armed < "$home/$1.armed"
    encode "${SSH_CONNECTION:-}"
    if [ "$code" != % ] && [ "${armed##* }" = "$code" ]; then answer same; finish 1; fi
    rm -f "$home/$1.armed"
    file=$home/$1.open
    append confirmed
    answer confirmed
}

