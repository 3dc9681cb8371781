#!/bin/sh
# guest: the virtual machines of this host, described by key=value lines.
#
#   guest [@NAME] VERB...    one of several; without a name, the first by name
#   guest list               their names
#   guest get [KEY...]       values in force: the running guest's, else those for the next start
#   guest set KEY=VALUE...   cpus, policy and the NIC's keys take effect at once, others at the next start
#   guest start              returns when one can log in; one that is paused goes on
#   guest pause              none of its processes runs until it is started, and its memory stays
#   guest stop
#   guest receive ADDRESS:PORT    a guest of QEMU waits there to be migrated to
#   guest state              running, paused or stopped
#   guest pids               its processes on this host
#   guest qmp COMMAND [JSON] asks the monitor of a guest of QEMU, and prints its answer as JSON
#   guest disks              device, format and file of each, as this host sees the file
#   guest memory             of a guest of User-Mode Linux: process and descriptor of the file that is
#                            its memory, and the kind of file system that this is on
#   guest placement          CPUs and policy that its threads really have, else those for the next start
what=guest
places=/run/labkit/guests
seconds=60

fail() {
    echo "guest: $*" >&2
    exit 1
}

pids() { find /proc -maxdepth 1 -user "$user" -name '[0-9]*' -printf '%f\n' 2> /dev/null; }

# T: stopped by a signal; t: by its tracer, as a guest's kernel has its processes.
state() {
    found=stopped
    for pid in $(pids); do
        { read -r _ _ how _ < "/proc/$pid/stat"; } 2> /dev/null || continue
        case $how in
            T) [ $found = running ] || found=paused ;;
            t) [ $found != stopped ] || found=traced ;;
            *) found=running ;;
        esac
    done
    [ $found != traced ] || found=running
    echo $found
}

in_force() {
    if [ -e "$home/running" ] && [ "$(state)" != stopped ]; then
        echo "$home/running"
    else
        echo "$home/description"
    fi
}

# Read by the shell itself, as are others below: to start programs is most of what a look costs.
value_of() {
    while IFS='=' read -r name value; do
        [ "$name" != "$2" ] || { printf '%s\n' "$value" && return; }
    done < "$1"
    return 1
}

get() {
    file=$(in_force)
    [ $# -gt 0 ] || exec cat "$file"
    for key in "$@"; do
        value_of "$file" "$key" || fail "no such key: $key; known: $(known)"
    done
}

wire() { value_of "$home/wires" "$1"; }

known() { sed -n 's/=.*//p' "$home/description" | tr '\n' ' '; }

refuse_unless_legal() {
    if [ "$(wire accelerator)" != uml ]; then
        case $1 in
            vcpus=[1-9] | vcpus=[1-5][0-9] | vcpus=6[0-4]) return ;;
            nic=bridge | batch=128 | lro=on) return ;;
            nic=* | batch=* | lro=*) fail "a guest of QEMU has no choice of $1" ;;
        esac
    fi
    case $1 in
        vcpus=1) ;;
        nic=bridge | nic=direct | lro=on | lro=off | policy=other | policy=fifo) ;;
        batch=[1-9] | batch=[1-9][0-9] | batch=1[01][0-9] | batch=12[0-8]) ;;
        memory=[1-9]*M) ;;
        cpus=[0-9]*) taskset -c "${1#*=}" true || fail "cannot have $1" ;;
        *) fail "cannot mean $1; known: nic=bridge|direct batch=1..128 lro=on|off memory=...M vcpus=... cpus=... policy=other|fifo" ;;
    esac
}

set_values() {
    for pair in "$@"; do
        refuse_unless_legal "$pair"
    done
    change "$home/description" "$@"
    now=$(state)
    [ "$now" != stopped ] && [ -e "$home/running" ] || return 0
    if [ "$(nic_in "$home/description")" != "$(nic_in "$home/running")" ]; then
        case $now in
            paused) : > "$home/unplugged" ;;
            *) plug ;;
        esac
    fi
    for pair; do
        shift
        case $pair in memory=* | vcpus=*) ;; *) set -- "$@" "$pair" ;; esac
    done
    change "$home/running" "$@"
    case " $*" in *" cpus="* | *" policy="*) place ;; esac
}

nic_in() {
    while read -r line; do
        case $line in nic=* | batch=* | lro=*) echo "$line" ;; esac
    done < "$1"
}

# A NIC stays what it is, so another one is plugged in. The guest puts it in the place of the one that
# it has (guest_hotplug.sh) and says so; then that one is pulled out.
plug() {
    read -r had last < "$home/slot"
    new=$((last + 1))
    echo "$had $new" > "$home/slot"
    exec 3<> "$home/ready"
    said=$(mconsole "config $(data_nic "$home/description" "$new")" "hear $seconds nic $new up" \
        "remove vec$had" 2>&1 9>&-) || { keep_nic "$new" && fail "its NIC did not change: $said"; }
    echo "$new $new" > "$home/slot"
}

keep_nic() {
    mconsole "remove vec$1" > /dev/null 2>&1
    # shellcheck disable=SC2046
    change "$home/description" $(nic_in "$home/running")
}

# change FILE KEY=VALUE...
change() {
    file=$1
    shift
    while read -r line; do
        for pair; do
            [ "${line%%=*}" != "${pair%%=*}" ] || line=$pair
        done
        printf '%s\n' "$line"
    done < "$file" > "$file.new"
    mv -f "$file.new" "$file"
}

scheduling() {
    if [ "$(value_of "$1" policy)" = fifo ]; then echo -f; else echo -o; fi
}

priority() {
    if [ "$(value_of "$1" policy)" = fifo ]; then echo 1; else echo 0; fi
}

prefer() { chrt -a "$(scheduling "$home/description")" -p "$(priority "$home/description")" "$1"; }

# In a user namespace only the guest's own user may, where its limit of real-time priority allows.
# A process that the guest made meanwhile may have missed it, so it is done until it is so.
place() {
    cpus=$(value_of "$home/description" cpus)
    for _ in 1 2 3 4 5; do
        for pid in $(pids); do
            taskset -a -c -p "$cpus" "$pid"
            prefer "$pid" || setpriv --reuid="$user" --regid="$user" --clear-groups "$0" "@${home##*/}" prefer "$pid"
        done > "$home/placing" 2>&1
        [ "$(placement | wc -l)" -ne 1 ] || return 0
    done
    fail "its threads did not all move: $(tail -n 1 "$home/placing")"
}

placement() {
    if [ "$(state)" = stopped ]; then
        echo "$(value_of "$home/description" cpus) $(value_of "$home/description" policy)"
        return
    fi
    for pid in $(pids); do
        for thread in "/proc/$pid/task/"*; do placed "$thread" 2> /dev/null; done
    done | sort -u
}

# The policy is field 41 of proc(5). A thread that has just ended has neither.
placed() {
    read -r line < "$1/stat" && while read -r name cpus; do
        [ "$name" != Cpus_allowed_list: ] || break
    done < "$1/status" || return 0
    # shellcheck disable=SC2086
    set -- ${line##*) }
    shift 38
    case $1 in 0) echo "$cpus other" ;; 1) echo "$cpus fifo" ;; 2) echo "$cpus rr" ;; *) echo "$cpus policy-$1" ;; esac
}

# data_nic FILE SLOT: as the values in the file describe it
data_nic() {
    options="depth=$(value_of "$1" batch),mac=$(wire mac1)"
    [ "$(value_of "$1" lro)" = off ] || options="$options,gro=1"
    case $(value_of "$1" nic) in
        direct) echo "vec$2:transport=raw,ifname=$(wire direct),$options" ;;
        *) echo "vec$2:transport=tap,ifname=$(wire tap),$options" ;;
    esac
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

start() {
    case $(state) in
        running) return 0 ;;
        paused) go_on && return 0 ;;
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
    [ "$verdict" = up ] && return 0
    stop
    tail -n 5 "$home/console" >&2
    fail "did not start: ${verdict:-nothing heard for $seconds s}"
}

# Those that a guest's kernel traces stop with it; a signal to them would reach the guest.
tell() {
    for pid in $(pids); do
        ! grep -q '^TracerPid:[[:space:]]*0$' "/proc/$pid/status" 2> /dev/null || kill "-$1" "$pid"
    done
}

# Should one of them be at work just now, it goes on until it comes back to the kernel.
pause() {
    [ "$(state)" != stopped ] || start
    tries=0
    until [ "$(state)" = paused ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || { tell CONT && fail "it is too busy to be paused"; }
        tell CONT
        tell STOP
    done
}

go_on() {
    tell CONT
    [ -e "$home/unplugged" ] || return 0
    (plug) || { pause && exit 1; }
    rm -f "$home/unplugged"
}

# It answers by its monitor as soon as it waits; until its memory has come it has nothing to say.
receive() {
    [ "$(wire accelerator)" != uml ] || fail "a guest of User-Mode Linux cannot be migrated"
    [ "$(state)" = stopped ] || fail "it runs here already"
    : > "$home/console"
    rm -f "$home/ready" "$home/run/qmp"
    mkfifo "$home/ready"
    exec 3<> "$home/ready"
    setsid -f "$0" "@${home##*/}" watch "-incoming defer" > /dev/null 2>&1 9>&-
    tries=0
    until (qmp migrate-incoming "{\"uri\": \"tcp:$1\"}" > "$home/receiving" 2>&1 9>&-); do
        tries=$((tries + 1))
        [ "$tries" -ge 200 ] && stop && fail "does not wait to be migrated: $(tail -n 1 "$home/receiving") $(tail -n 1 "$home/console")"
        sleep 0.05
    done
    rm -f "$home/initrd"
}

# One look can miss a process that was just made, so it must be calm twice.
stop() {
    calm=0
    while [ "$calm" -lt 2 ]; do
        left=$(pids)
        calm=$((calm + 1))
        [ -z "$left" ] || calm=0
        # shellcheck disable=SC2086
        [ -z "$left" ] || kill -KILL $left 2> /dev/null
        sleep 0.005
    done
    rm -rf "$home/running" "$home/unplugged" "$home/run/monitor"
}

# include guest_boot.sh
# include guest_monitors.sh
# include one_of.sh
user=$(wire user)
case $verb in
    list) ls "$places" ;;
    get) get "$@" ;;
    set) alone set_values "$@" ;;
    start | pause | stop) alone "$verb" ;;
    state | pids | placement) "$verb" ;;
    qmp) qmp "$@" ;;
    disks) show_disks ;;
    memory) show_memory ;;
    receive) alone receive "$@" ;;
    prefer) prefer "$1" ;;
    watch) incoming=${1:-} && watch ;;
    *) sed -n '2,/^what/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
