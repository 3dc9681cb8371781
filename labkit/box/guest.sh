#!/bin/sh
# guest: the virtual machines of this host, described by key=value lines.
#
#   guest [@NAME] VERB...    one of several; without a name, the first by name
#   guest list               their names
#   guest get [KEY...]       values in force: the running guest's, else those for the next start
#   guest set KEY=VALUE...   cpus and policy take effect at once, the others at the next start
#   guest start              returns when one can log in
#   guest stop
#   guest receive ADDRESS:PORT    a guest of QEMU waits there to be migrated to
#   guest state              running or stopped
#   guest pids               its processes on this host
#   guest qmp COMMAND [JSON] asks the monitor of a guest of QEMU, and prints its answer as JSON
#   guest disks              device, format and file of each, as this host sees the file
#   guest placement          CPUs and policy that its threads really have, else those for the next start
guests=/run/labkit/guests
seconds=60

fail() {
    echo "guest: $*" >&2
    exit 1
}

pids() { find /proc -maxdepth 1 -user "$user" -name '[0-9]*' -printf '%f\n' 2> /dev/null; }

state() {
    if [ -n "$(pids)" ]; then echo running; else echo stopped; fi
}

in_force() {
    if [ -e "$home/running" ] && [ "$(state)" = running ]; then
        echo "$home/running"
    else
        echo "$home/description"
    fi
}

value_of() { sed -n "s/^$2=//p" "$1"; }

get() {
    file=$(in_force)
    [ $# -gt 0 ] || exec cat "$file"
    for key in "$@"; do
        grep -q "^$key=" "$file" || fail "no such key: $key; known: $(known)"
        value_of "$file" "$key"
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
    for pair in "$@"; do
        change "$home/description" "$pair"
        case $pair in cpus=* | policy=*) [ ! -e "$home/running" ] || change "$home/running" "$pair" ;; esac
    done
    case " $*" in *" cpus="* | *" policy="*) [ "$(state)" = stopped ] || place ;; esac
}

change() {
    sed "s/^${2%%=*}=.*/$2/" "$1" > "$1.new"
    mv -f "$1.new" "$1"
}

scheduling() {
    if [ "$(value_of "$1" policy)" = fifo ]; then echo -f; else echo -o; fi
}

priority() {
    if [ "$(value_of "$1" policy)" = fifo ]; then echo 1; else echo 0; fi
}

# A process that the guest made meanwhile may have missed it, so it is done until it is so.
place() {
    cpus=$(value_of "$home/description" cpus)
    for _ in 1 2 3 4 5; do
        for pid in $(pids); do
            taskset -a -c -p "$cpus" "$pid" && chrt -a "$(scheduling "$home/description")" \
                -p "$(priority "$home/description")" "$pid"
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
        for thread in "/proc/$pid/task/"*; do
            cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$thread/status" 2> /dev/null)
            policy=$(chrt -p "${thread##*/}" 2> /dev/null | sed -n 's/.*policy: SCHED_//p')
            [ -z "$cpus" ] || [ -z "$policy" ] || echo "$cpus $policy"
        done
    done | tr '[:upper:]' '[:lower:]' | sort -u
}

data_nic() {
    options="depth=$(value_of "$home/running" batch),mac=$(wire mac1)"
    [ "$(value_of "$home/running" lro)" = off ] || options="$options,gro=1"
    case $(value_of "$home/running" nic) in
        direct) echo "vec1:transport=raw,ifname=$(wire direct),$options" ;;
        *) echo "vec1:transport=tap,ifname=$(wire tap),$options" ;;
    esac
}

boot() {
    cpus=$(value_of "$home/running" cpus)
    memory=$(value_of "$home/running" memory)
    if [ "$(wire accelerator)" = uml ]; then boot_uml; else boot_qemu; fi
}

disks() { sed -n 's/^disk[0-9]*=//p' "$home/wires"; }

device_of() { name=${1##*/}; echo "${name%.*}"; }

show_disks() {
    disks | while read -r file format; do
        echo "$(device_of "$file") $format $file"
    done
}

# A copy on write stands before the file that it is a copy of.
disks_uml() {
    disks | while read -r file format; do
        [ "$format" != cow ] || file=$file,${file%.cow}.base
        echo "$(device_of "${file%,*}")=$file"
    done
}

disks_qemu() {
    disks | while read -r file format; do
        name=$(device_of "$file")
        echo "-drive if=none,id=$name,file=$file,format=$format"
        echo "-device virtio-blk-pci,drive=$name,serial=$name"
    done
}

# It has no rights but to read raw frames, so that what it shares with this host stays as it is.
boot_uml() {
    # shellcheck disable=SC2046
    exec env -i HOME=/tmp TMPDIR=/tmp PATH="$PATH" \
        taskset -c "$cpus" chrt "$(scheduling "$home/running")" "$(priority "$home/running")" \
        setpriv --reuid="$user" --regid="$user" --clear-groups \
        --inh-caps=-all,+net_raw --ambient-caps=-all,+net_raw \
        linux.uml mem="$memory" root=/dev/root rootfstype=hostfs rootflags=/ ro \
        init="$home/init" con=null con0=null,fd:1 ssl=null quiet $(disks_uml) \
        "vec0:transport=raw,ifname=$(wire control),depth=128,gro=1,mac=$(wire mac0)" \
        "$(data_nic)"
}

nic() { echo "-netdev tap,id=$1,ifname=$2,script=no,downscript=no -device virtio-net-pci,netdev=$1,mac=$3,romfile="; }

boot_qemu() {
    cat "$(wire image)" "$home/run/own.cpio" > "$home/initrd" || fail "cannot make its first root"
    accelerator=$(wire accelerator)
    [ "$accelerator" = kvm ] || accelerator=tcg,thread=multi
    # shellcheck disable=SC2046
    exec env -i HOME=/tmp TMPDIR=/tmp PATH="$PATH" \
        taskset -c "$cpus" chrt "$(scheduling "$home/running")" "$(priority "$home/running")" \
        setpriv --reuid="$user" --regid="$user" --clear-groups --inh-caps=-all \
        qemu-system-x86_64 -name "${home##*/}" -accel "$accelerator" -machine q35 -cpu max \
        -m "$memory" -smp "$(value_of "$home/running" vcpus)" -nodefaults -no-user-config \
        -display none -serial stdio -kernel "$(wire kernel)" -initrd "$home/initrd" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on" \
        -qmp "unix:$home/run/qmp,server=on,wait=off" $incoming -device virtio-rng-pci $(disks_qemu) \
        $(nic control "$(wire control_tap)" "$(wire mac0)") $(nic data "$(wire tap)" "$(wire mac1)")
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
    [ "$(state)" = stopped ] || return 0
    cp "$home/description" "$home/running"
    : > "$home/console"
    rm -f "$home/ready"
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
    rm -f "$home/running"
}

QMP='
import json, socket, sys
place, command, *given = sys.argv[1:]
told = {"execute": command} | ({"arguments": json.loads(given[0])} if given else {})
with socket.socket(socket.AF_UNIX) as monitor:
    monitor.settimeout(20)
    monitor.connect(place)
    lines = monitor.makefile("rw")
    for one in ({"execute": "qmp_capabilities"}, told):
        print(json.dumps(one), file=lines, flush=True)
        for line in lines:
            said = json.loads(line)
            if "error" in said:
                sys.exit(said["error"]["desc"])
            if "return" in said:
                break
print(json.dumps(said["return"]))
'

qmp() {
    [ "$(wire accelerator)" != uml ] || fail "a guest of User-Mode Linux has no QMP"
    [ "$(state)" = running ] || fail "it is stopped, and so is its QMP"
    [ $# -gt 0 ] || fail "which command? guest qmp query-commands lists them"
    python3 -c "$QMP" "$home/run/qmp" "$@"
}

alone() {
    exec 9> "$home/lock"
    flock 9
    "$@"
}

case ${1:-} in
    @*)
        home=$guests/${1#@}
        [ -e "$home/wires" ] || fail "no such guest: ${1#@}; known: $(ls "$guests")"
        shift
        ;;
    *) home=$guests/$(ls "$guests" | head -n 1) ;;
esac
user=$(wire user)
verb=${1:-}
[ $# -eq 0 ] || shift
case $verb in
    list) ls "$guests" ;;
    get) get "$@" ;;
    set) alone set_values "$@" ;;
    start | stop) alone "$verb" ;;
    state | pids | placement) "$verb" ;;
    qmp) qmp "$@" ;;
    disks) show_disks ;;
    receive) alone receive "$@" ;;
    watch) incoming=${1:-} && watch ;;
    *) sed -n '2,/^guests/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
