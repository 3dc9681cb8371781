# programs: flock setsid
# --- leases: TOKEN OWNER CONTROLLER PID STARTED BOOT SINCE STUDY HOSTBOOT

host_boot() {
    boot=none
    # shellcheck disable=SC2162
    [ ! -r /proc/sys/kernel/random/boot_id ] || read boot < /proc/sys/kernel/random/boot_id
}

# Sets `which`: a name for this host as long as it runs. A host of a box that is made again has another.
host_since_start() {
    host_boot
    which=$boot
    { IFS= read -r which < /run/labkit-host || { echo "$token" > /run/labkit-host && which=$token; }; } 2> /dev/null ||
        which=$boot
}

# Whoever holds it has been told its line when that was summed up, and says it the next time: `summed`.
read_lease() {
    lease='' lease_token=- lease_line=
    [ -r "$home/lease" ] || return 0
    while IFS= read -r line; do
        # shellcheck disable=SC2086
        set -- $line
        [ "$line" = "$summed" ] && sum="$2 $3" || sum_of "${line#"labkit1 $2 $3 "}"
        if [ "$1" = labkit1 ] && [ "$sum" = "$2 $3" ]; then
            shift 3
            lease="$*" lease_token=$1 lease_line=$line
        fi
    done < "$home/lease"
}

# It ends with the host's boot, so that it need not outlive a power cut.
write_lease() {
    sum_of "$1"
    beside "$home/lease" "labkit1 $sum $1" && said=$(mv -f "$home/lease.new" "$home/lease" 2>&1)
}

# The watch of a lease holds a lock that the kernel lets go of when it dies.
# That of our own is first looked for by its number, which takes no program.
is_alive() {
    [ -e "$home/alive-$1" ] || return 1
    if ! command -v flock > /dev/null; then
        is_watched "$1"
    elif [ "$1" != "$token" ] || ! is_watched "$1"; then
        ! flock -n "$home/alive-$1" true
    fi
}

is_watched() {
    IFS= read -r watcher < "$home/alive-$1" || return 1
    # shellcheck disable=SC2086
    is_running $watcher
}

state_of_lease() {
    host_boot
    if [ -z "$lease" ]; then lives=free
    elif [ "${lease##* }" != "$boot" ]; then lives=rebooted
    elif is_alive "$lease_token"; then lives=alive
    else lives=silent; fi
}

# As a process of its own: it lives on when the session and its group have ended.
detached() {
    if command -v setsid > /dev/null; then
        said=$(setsid sh "$home/labkit.sh" "$@" 2> /dev/null < /dev/null 9>&- &)
    else
        said=$(nohup sh "$home/labkit.sh" "$@" 2> /dev/null < /dev/null 9>&- &)
    fi
    [ "$said" = ready ]
}

# acquire TASK, with what the controller said of itself in `me` (TOKEN OWNER ... STUDY)
acquire() {
    make_place
    alone
    read_lease
    # shellcheck disable=SC2086
    set -- "$1" $me
    task=$1 token=$2 who="$3 $4 $5 $6 $7"
    case $lease in
        "$token "*) ;;
        *" $who "*) token=$lease_token ;;
        *)
            state_of_lease
            if [ "$joining" = yes ]; then answer fenced "$lives" "$lease"; finish 1; fi
            if [ $lives = alive ] && [ "$breaking" != yes ]; then answer held "$lease"; finish 1; fi
            if [ "$task" != restore ]; then refuse_unfinished; fi
            take "$8"
            ;;
    esac
    encode "$lease_line"
    host_since_start
    answer token "$token" "$code" "$which"
    is_alive "$token" || detached watch "$token" "$silence" || fail "no process can stay on this host to watch over the changes"
}

take() {
    keep_script
    rm -f "$home/alive-$lease_token"
    numbers open
    [ -z "$lease$found" ] || stranger=yes
    write_lease "$token $who $(date -u +%Y-%m-%dT%H:%M:%SZ) $1 $boot" ||
        fail "the journal cannot be written: $said"
    read_lease
}

# For those who come without us, and under the name by which we ask for it the next time. In a way that
# has no second names for a file, or where it was kept by others, it comes with each question.
keep_script() {
    [ "$script" != kept ] || return 0
    [ -n "$script" ] || script=$(cat "$0")
    if [ "$(cat "$home/labkit.sh" 2> /dev/null)" != "$script" ]; then
        replace "$home/labkit.sh" "$script" || fail "the journal cannot be written: $said"
        set +f
        rm -f "$home"/kept-*.sh
        set -f
    fi
    [ -z "$keep" ] || [ -e "$home/$keep" ] || ln "$home/labkit.sh" "$home/$keep" 2> /dev/null || :
}

refuse_unfinished() {
    numbers open
    [ -n "$found" ] || return 0
    tell_open
    finish 1
}

tell_open() {
    numbers open
    for one in $found; do
        IFS= read -r line < "$home/$one.open"
        # shellcheck disable=SC2086
        set -- $line
        if [ $# -gt 4 ]; then shift 4; fi
        answer open "$one" "$@"
    done
}

# Another may have been given this host while we were stopped.
still_ours() {
    IFS= read -r newest < "$home/lease" && [ "$newest" = "$our_lease" ] && return
    read_lease
    if [ "$lease_token" = "$token" ]; then
        our_lease=$newest
        return
    fi
    answer fenced taken "$lease"
    finish 1
}

free_lease() {
    numbers open
    [ -z "$found" ] || return 0
    rm -f "$home/lease" "$home/alive-$token" "$home/beat"
}

# Its lock says that the owner has been heard of; when nothing was heard for long, all goes back.
# It counts its own steps, so no change of the clock can make it early or late. They are long: in
# a guest that is measured each of them is seen.
watch() {
    token=$1 silence=$2 quiet=0 last='' listening='' step=15
    [ "$silence" -ge 120 ] || step=5
    listen
    echo ready
    exec > /dev/null
    while holds_lease; do
        sleep "$step" 8>&-
        beat=
        [ ! -r "$home/beat" ] || IFS= read -r beat < "$home/beat"
        if [ "$beat" != "$last" ]; then quiet=0 last=$beat; else quiet=$((quiet + step)); fi
        if [ "$quiet" -ge "$dead_after" ]; then
            : > "$home/alive-$token"
            exec 8>&-
            listening=
        elif [ -z "$listening" ]; then
            listen
        fi
        if [ "$quiet" -ge "$silence" ]; then
            alone
            read_lease
            [ "$lease_token" != "$token" ] || restore_sets all
            free_lease
            exit
        fi
    done
    rm -f "$home/alive-$token"
}

# What is as it was the last time need not be summed up again.
holds_lease() {
    IFS= read -r newest 2> /dev/null < "$home/lease" || return 1
    [ "$newest" != "$our_lease" ] || return 0
    read_lease
    our_lease=$newest
    [ "$lease_token" = "$token" ]
}

listen() {
    exec 8> "$home/alive-$token"
    born_of $$
    echo "$$ $born" >&8
    if command -v flock > /dev/null; then flock -n 8 || exit 1; fi
    listening=yes
}

