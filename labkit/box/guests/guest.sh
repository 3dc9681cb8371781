#!/bin/sh
# programs: setsid
# guest: the virtual machines of this host, described by key=value lines.
#
#   guest [@NAME] VERB...    one of several; without a name, the first by name
#   guest list               their names
#   guest get [KEY...]       values in force: the running guest's, else those for the next start
#   guest set KEY=VALUE...   cpus, policy and the NIC's keys take effect at once, others at the next start;
#                            cpus=last and cpus=all are of those that the host has; wakeups=kept
#                            (default) or lossy, as the kernel of User-Mode Linux has them by itself;
#                            per_node: how many CPUs of a guest of QEMU it sees as a NUMA node, or all
#   guest start              returns when one can log in; one that is paused goes on
#   guest pause              none of its processes runs until it is started, and its memory stays
#   guest stop
#   guest receive ADDRESS:PORT [COMMAND JSON]...
#                            a guest of QEMU waits there to be migrated to, and is first told these commands
#   guest state              running, paused or stopped
#   guest pids               its processes on this host
#   guest each               of lines `ABOUT COMMAND`, which ask for any of `get`, `state`, `pids` and
#                            `placement`, makes `ABOUT TEXT`, encoded as the journal's fields are
#   guest qmp COMMAND [JSON] asks the monitor of a guest of QEMU, and prints its answer as JSON
#   guest disks              device, format and file of each, as this host sees the file
#   guest memory             of a guest that has its host's files: process and descriptor of the file
#                            that is its memory, and the kind of file system that this is on
#   guest placement [host]   CPUs and policy that its threads really have, else those for the next start;
#                            with `host`, then the CPUs that this host has, and whether it may give
#                            no process real-time priority
what=guest
places=/run/labkit/guests
seconds=300
awake=/run/labkit/bin/waking.so

fail() {
    echo "guest: $*" >&2
    exit 1
}

# What a study asks again and again is done by guest.pl.
quick() { "${0%.sh}" "@${home##*/}" "$@"; }

# Read by the shell itself: to start programs is most of what a look costs.
value_of() {
    while IFS='=' read -r name value; do
        [ "$name" != "$2" ] || { printf '%s\n' "$value" && return; }
    done < "$1"
    return 1
}

wire() { value_of "$home/wires" "$1"; }

scheduling() {
    if [ "$(value_of "$1" policy)" = fifo ]; then echo -f; else echo -o; fi
}

priority() {
    if [ "$(value_of "$1" policy)" = fifo ]; then echo 1; else echo 0; fi
}

watch() {
    boot 2>&1 < /dev/null | while IFS= read -r line; do
        printf '%s\n' "$line" >> "$home/console"
        case $line in
            *"Server listening on "*) echo up >&3 ;;
            "labkit: "*) printf '%s\n' "${line#labkit: }" >&3 ;;
        esac
    done
    echo gone >&3
}

# A guest of QEMU has begun with all its threads alike, and its driver has asked for its NIC as it comes.
ranked() {
    [ "$(wire accelerator)" != uml ] || return 0
    [ -z "$(wire root)" ] || quick lead || return
    [ "$(value_of "$home/running" policy)" != fifo ] || quick place
}

# Whether what is to keep its wake-ups is there.
wakes() {
    [ "$(value_of "$home/running" wakeups)" = kept ] || return 0
    for pid in $(quick pids); do
        ! grep -qs " $awake\$" "/proc/$pid/maps" || return 0
    done
    return 1
}

start() {
    case $(quick state) in
        running) return 0 ;;
        paused) exec 9>&- && quick start && return ;;
    esac
    cp "$home/description" "$home/running"
    echo 1 1 > "$home/slot"
    : > "$home/console"
    rm -rf "$home/ready" "$home/unplugged" "$home/run/monitor"
    mkfifo "$home/ready"
    # Opened for both, so that opening waits for nobody.
    exec 3<> "$home/ready"
    setsid -f "$0" "@${home##*/}" watch > /dev/null 2>&1 9>&-
    verdict=$(timeout "$seconds" head -n 1 <&3 9>&-)
    rm -f "$home/initrd"
    [ "$verdict" = up ] && wakes && ranked && return 0
    stop
    tail -n 5 "$home/console" >&2
    [ "$verdict" != up ] || fail "its wake-ups are not kept, for linux.uml did not load $awake; try: guest set wakeups=lossy"
    fail "did not start: ${verdict:-nothing heard for $seconds s}"
}

not_waiting() {
    stop
    fail "does not wait to be migrated: $(tail -n 1 "$home/receiving") $(tail -n 1 "$home/console")"
}

# It answers by its monitor as soon as it waits; until its memory has come it has nothing to say.
receive() {
    [ "$(wire accelerator)" != uml ] || fail "a guest of User-Mode Linux cannot be migrated"
    [ "$(quick state)" = stopped ] || fail "it runs here already"
    : > "$home/console"
    rm -f "$home/ready" "$home/run/qmp" "$home/run/watched"
    mkfifo "$home/ready"
    exec 3<> "$home/ready"
    case "$*" in *'"postcopy-ram", "state": true'*) rights=,+sys_ptrace ;; *) rights= ;; esac
    setsid -f "$0" "@${home##*/}" watch "-incoming defer" "$rights" > /dev/null 2>&1 9>&-
    at=$1
    tries=0
    until (qmp query-status > "$home/receiving" 2>&1 9>&-); do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || not_waiting
        sleep 0.05
    done
    while shift && [ $# -ge 2 ]; do
        (qmp "$1" "$2" > "$home/receiving" 2>&1 9>&-) || not_waiting
        shift
    done
    (qmp migrate-incoming "{\"uri\": \"tcp:$at\"}" > "$home/receiving" 2>&1 9>&-) || not_waiting
    rm -f "$home/initrd"
}

# One look can miss a process that was just made, so it must be calm twice.
stop() {
    calm=0
    while [ "$calm" -lt 2 ]; do
        left=$(quick pids)
        calm=$((calm + 1))
        [ -z "$left" ] || calm=0
        # shellcheck disable=SC2086
        [ -z "$left" ] || kill -KILL $left 2> /dev/null
        sleep 0.005
    done
    rm -rf "$home/running" "$home/unplugged" "$home/run/monitor"
}

# include guest_kvm.sh
# include guest_boot.sh
# include guest_monitors.sh
# include one_of.sh
user=$(wire user)
case $verb in
    list) ls "$places" ;;
    start | stop) alone "$verb" ;;
    qmp) qmp "$@" ;;
    disks) show_disks ;;
    receive) alone receive "$@" ;;
    watch) incoming=${1:-} rights=${2:-} && watch ;;
    *) sed -n '2,/^what/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
