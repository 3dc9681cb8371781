#!/bin/sh
# runner: one detached job on this host; all that is known of it is in its folder.
#
# Sent as `sh -c 'eval "$1"' runner TEXT VERB ...`, so that it can keep its own text in the folder
# of each job; kept, it is called `sh FOLDER/runner '' VERB ...`. POSIX sh, so that dash, bash and
# BusyBox run it alike.
#
#   start SPOOL KEY SECONDS STALL CAP GRACE WORDS   once for each KEY; prints the folder
#   look FOLDER NONCE STREAM OFFSET LIMIT PATIENCE  what there is to know, and a part of the output
#   list SPOOL NONCE                                the same of all jobs
#   cancel FOLDER GRACE                             ends every process of a job
#   forget FOLDER                                   removes all that is kept of a job that is over
#
# The processes of a job: `supervise` holds the pipes together; `reap` waits for the workload and
# holds sup.lock; the workload and its children hold work.lock; one `keep` for each stream holds
# out.lock; `watch` ends the workload at its deadline. What is dead holds no lock.
text=$1 locks=pid
shift

say() { printf '%s\n' "$*"; }

fail() {
    say "$*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# Not every sleep knows parts of a second.
nap() { sleep 0.1 2>/dev/null || sleep 1; }

# Hundredths of a second since boot, into $now: no clock that somebody could set.
tick() {
    if read -r now _ 2>/dev/null </proc/uptime; then
        now=${now%.*}${now#*.}
        now=${now#0} now=${now#0}
    else
        now=$(date +%s)00
    fi
}

# Without a process of its own, which can be refused: a word less would make the record unreadable.
boot() { if read -r id 2>/dev/null </proc/sys/kernel/random/boot_id; then say "$id"; else say unknown; fi; }

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

# --- which processes live -------------------------------------------------------------------

# Keeps the number of this process, subshells included, and the moment of its birth, as NAME.
me() {
    if read -r stat 2>/dev/null </proc/self/stat; then
        pid=${stat%% *}
        born_of "$stat"
    else
        pid=$(exec sh -c 'echo $PPID')
        birth=0
    fi
    say "$pid $birth" 1<>"$job/$1.pid"
}

# Field 22 of proc_pid_stat(5), and 3, into $birth and $state; the name of a program may hold anything.
born_of() {
    # shellcheck disable=SC2086
    set -- ${1##*) }
    state=$1 birth=${20}
}

alive() {
    pid='' known=''
    read -r pid known _ 2>/dev/null <"$job/$1.pid"
    [ "$pid" ] || return 1
    if ! [ -e /proc/self/stat ]; then
        kill -0 "$pid" 2>/dev/null || { [ "$1" = work ] && kill -0 -- "-$pid" 2>/dev/null; }
        return
    fi
    read -r stat 2>/dev/null <"/proc/$pid/stat" || return 1
    born_of "$stat"
    [ "$birth" = "$known" ] && [ "$state" != Z ]
}

# Asked when `alive work` has found no number.
unborn() { [ -z "$pid" ] && alive sup; }

lock() { if has flock; then flock "$1"; fi; }

free_lock() { flock -s -n 5 2>/dev/null 5<"$job/$1.lock"; }

# A workload that closes what it inherits (sudo does) is still found by its number.
held() {
    if [ "$locks" = flock ] && [ -e "$job/$1.lock" ]; then
        free_lock "$1" || return 0
        [ "$1" = work ] && alive work
        return
    fi
    case $1 in
        work) alive work || unborn || [ "$(members)" ] ;;
        out) alive out || alive err ;;
        *) alive "$1" ;;
    esac
}

# Waits until NAME is held no more, SECONDS at most.
await() {
    if [ "$locks" = flock ] && [ -e "$job/$1.lock" ]; then
        flock -s -E 75 -w "$2" 5 2>/dev/null 5<"$job/$1.lock"
        case $? in
            75) return 0 ;;
            0) held "$1" || return 0 ;;
        esac
    fi
    tick
    end=$((now + $2 * 100))
    while [ "$now" -lt "$end" ] && held "$1"; do
        nap
        tick
    done
    return 0
}

# The processes of the job: those that carry its name, hold its lock, or descend from such a one.
members() {
    if ! [ -e /proc/self/stat ]; then
        # A group of processes, as kill names it, for there is no list to look them up in; but not
        # when nothing else of the job lives, for the number may be another's by then.
        if alive sup || alive out || alive err; then alive work && say "-$pid"; fi
        return
    fi
    main=0
    if alive work; then main=$pid; fi
    {
        grep -lsF "LABKIT_JOB=$job/" /proc/[0-9]*/environ
        ls -l /proc/[0-9]*/fd
        cat /proc/[0-9]*/stat
    } 2>/dev/null | awk -v lock="$job/work.lock" -v main="$main" -v reaper="$(reaper)" '
        /^\/proc\/[0-9]+\/(environ|fd:)$/ { split($0, part, "/"); at = part[3]
            if (part[4] == "environ") mine[at] = 1
            next }
        index($0, "-> " lock) { mine[at] = 1; next }
        /^[0-9]+ \(/ { pid = $1; sub(/^.*\) /, ""); state[pid] = $1; up[pid] = $2; session[pid] = $4 }
        END {
            if (main) mine[main] = 1
            do {
                more = 0
                for (pid in up)
                    if (!(pid in mine) && ((up[pid] in mine) || (main && session[pid] == main))) {
                        mine[pid] = 1
                        more = 1
                    }
            } while (more)
            for (pid in up) if ((pid in mine) && state[pid] != "Z" && pid != reaper) print pid
        }'
}

# It holds the workload's lock for the moment before there is a workload.
reaper() {
    if alive sup; then say "$pid"; else say 0; fi
}

# --- ending ---------------------------------------------------------------------------------

signal() {
    # shellcheck disable=SC2046
    kill -s "$1" -- $(members) 2>/dev/null
}

# First asked, then told; a stopped process hears nothing until it is continued.
end_tree() {
    signal TERM
    signal CONT
    tick
    end=$((now + $1 * 100))
    while [ "$now" -lt "$end" ] && [ "$(members)" ]; do
        nap
        tick
    done
    turns=0
    while [ "$turns" -lt 100 ] && [ "$(members)" ]; do
        signal KILL
        [ "$turns" -lt 5 ] || nap
        turns=$((turns + 1))
    done
    [ -d "$job" ] || return 0
    await out 3
    # Something that cannot be found holds the pipes: it shall not keep the job from being over.
    if held out && [ -s "$job/group.pid" ]; then
        read -r pid _ <"$job/group.pid"
        kill -s KILL -- "-$pid" 2>/dev/null
    fi
}

# --- starting -------------------------------------------------------------------------------

spool() {
    if [ "$1" ]; then
        spool=$1
    elif [ "$(id -u)" = 0 ]; then
        spool=/var/lib/labkit/jobs
    else
        spool=${HOME:?}/.local/state/labkit/jobs
    fi
}

start() {
    mask=$(umask)
    umask 077
    # What a shell catches, unlike what it ignores, its children do not inherit.
    trap : HUP PIPE
    spool "$1"
    job=$spool/$2 key=$2 seconds=$3 stall=$4 cap=$5 grace=$6 words=$7
    free="to free its key: host.job('$key').forget()"
    missing=
    for word in awk cat dd grep head ls mkdir mv rm sleep sync tail wc; do
        has "$word" || missing="$missing $word"
    done
    [ -z "$missing" ] || fail "this host lacks:$missing"
    mkdir -p "$spool" || exit 1
    if [ -L "$spool" ] || ! [ -O "$spool" ]; then fail "$spool is a link, or somebody else's"; fi
    chmod 700 "$spool" || exit 1
    until mkdir "$job" 2>/dev/null; do
        if ! [ -d "$job" ]; then
            mkdir "$job" || exit 1
            break
        fi
        if attached; then return; fi
    done
    prepared || {
        rm -rf "$job"
        fail "cannot write $job; nothing was started. $(df -k "$spool" 2>/dev/null | tail -n 1)"
    }
    launch
    await_birth || fail "it did not begin: $(tail -n 2 "$job/log")
$free"
    say "started $job"
}

# Whoever made the folder may still be filling it.
attached() {
    turns=0
    until [ -e "$job/words" ]; do
        [ -d "$job" ] || return 1
        [ "$turns" -lt 100 ] || fail "its start was cut short, nothing of it ran
$free"
        turns=$((turns + 1))
        nap
    done
    if [ "$(cat "$job/words")" = "$words" ]; then
        say "attached $job"
        return
    fi
    say "$job is another job: $(cat "$job/words")" >&2
    exit 3
}

prepared() {
    say "$text" >"$job/runner" && [ "$(cat "$job/runner")" = "$text" ] &&
        say "$seconds $stall $cap $grace $mask" >"$job/limits" && [ -s "$job/limits" ] &&
        reserve born main why out.full err.full || return 1
    for slot in $SLOTS; do
        reserve "$slot" && mv "$job/$slot.new" "$job/$slot.pid" || return 1
    done
    for file in sup.lock work.lock out.lock out.000000000000000 err.000000000000000 log; do
        printf '' >"$job/$file" || return 1
    done
    # With its end on a line of its own, so that a shell gives all of it back.
    say "$words" >"$job/words.new" && [ "$(cat "$job/words.new")" = "$words" ] || return 1
    mv "$job/words.new" "$job/words"
    durable "$job/words" "$job" "$spool"
}

launch() {
    launched=
    if [ -d /run/systemd/system ] && has systemd-run; then
        if as_unit 2>>"$job/log"; then return; fi
        stays || {
            rm -rf "$job"
            fail "logind ends what users leave behind (KillUserProcesses=yes): loginctl enable-linger"
        }
    fi
    if has setsid; then
        setsid sh "$job/runner" '' supervise "$job" </dev/null >>"$job/log" 2>&1 &
    else
        set -m
        sh "$job/runner" '' supervise "$job" </dev/null >>"$job/log" 2>&1 &
    fi
    launched=$!
}

# systemd.service(5): a unit has a control group of its own, and logind does not know it. Without
# lingering a user's units end when the user logs out.
as_unit() {
    whose=--system
    if [ "$(id -u)" != 0 ]; then
        [ "$(loginctl show-user "$(id -un)" -p Linger --value)" = yes ] || return 1
        whose=--user
        : "${XDG_RUNTIME_DIR:=/run/user/$(id -u)}"
        export XDG_RUNTIME_DIR
    fi
    systemd-run "$whose" --quiet --collect --unit="labkit-job-$key" \
        --description="labkit job $key" -p Type=exec -p KillMode=control-group \
        -p RuntimeMaxSec=$((seconds + grace + 60)) -p TimeoutStopSec=$((grace + 1)) \
        --setenv=PATH="$PATH" --setenv=HOME="${HOME:-/}" --setenv=LC_ALL=C \
        sh "$job/runner" '' supervise "$job" </dev/null >/dev/null
}

stays() {
    [ "$(id -u)" = 0 ] || ! has busctl || [ "$(busctl get-property org.freedesktop.login1 \
        /org/freedesktop/login1 org.freedesktop.login1.Manager KillUserProcesses 2>&1)" != 'b true' ]
}

await_birth() {
    turns=0
    until [ -e "$job/born" ]; do
        [ "$turns" -lt 100 ] || return 1
        [ "$turns" -lt 5 ] || [ -z "$launched" ] || kill -0 "$launched" 2>/dev/null || return 1
        turns=$((turns + 1))
        if [ "$turns" -gt 5 ]; then nap; else sleep 0.02 2>/dev/null || nap; fi
    done
}

# --- running --------------------------------------------------------------------------------

limits() {
    read -r seconds stall cap grace mask <"$job/limits"
    if has flock; then locks=flock; else locks=pid; fi
}

# A start that was repeated by an init system finds the first one. Descriptors are closed by exec in
# a subshell: for a function a shell would keep copies, and with them pipes and locks.
supervise() {
    mkdir "$job/begun" 2>/dev/null || exit 0
    limits
    me group
    exec 7>"$job/out.lock"
    lock 7
    {
        (exec 2>&1 >&6 6>&- 7>&- && reap) | (exec >/dev/null 6>&- && keep err)
    } 6>&1 | (exec >/dev/null && keep out)
}

# A shell cannot tell the end by signal 9 from the code 137; perl can.
REAP='use strict; use POSIX ();
my ($job) = @ARGV;
my $pid = fork;
defined $pid or die "fork: $!\n";
if (!$pid) {
    POSIX::setsid();
    POSIX::close(8);
    $SIG{$_} = "DEFAULT" for qw(HUP INT QUIT PIPE TERM);
    exec "sh", "$job/runner", "", "become", $job;
    POSIX::_exit(126);
}
POSIX::close(9);
open STDOUT, ">>", "$job/log";
open STDERR, ">&STDOUT";
waitpid $pid, 0;
my ($signal, $code) = ($? & 127, $? >> 8);
exec "sh", "$job/runner", "", "ended", $job, $signal ? ("signal", $signal) : ("exit", $code);'

reap() {
    exec 8>"$job/sup.lock" 9>"$job/work.lock"
    lock 8
    lock 9
    me sup
    tick
    if has perl; then waits=perl; else waits=sh; fi
    record born "$(boot) $now $(date +%s) $locks $waits"
    (exec </dev/null >>"$job/log" 2>&1 8>&- 9>&- && watch) &
    if [ "$waits" = perl ]; then exec perl -e "$REAP" "$job"; fi
    if has setsid; then
        setsid sh "$job/runner" '' become "$job" 8>&- 9>&9 &
    else
        set -m
        sh "$job/runner" '' become "$job" 8>&- 9>&9 &
    fi
    main=$!
    exec 9>&- >>"$job/log" 2>&1
    wait "$main"
    ended code $?
}

ended() {
    tick
    case "$1 $2" in
        'signal 9' | 'code 137') record main "$1 $2 $now $(by_kernel)" ;;
        *) record main "$1 $2 $now" ;;
    esac
}

# What the kernel says before it kills for want of memory, since the job began.
by_kernel() {
    alive work
    read -r _ begun _ <"$job/born"
    dmesg 2>/dev/null | awk -v since="$begun" -v killed="Killed process $pid (" '
        index($0, killed) { sub(/^\[ */, ""); if ($1 * 100 >= since - 100) found = 1 }
        END { if (found) print "oom" }'
}

become() {
    me work
    # Whoever cancels records it first and looks for this number then: one of the two sees the other.
    [ ! -e "$job/why" ] || kill -s TERM $$
    limits
    umask "$mask"
    cd "${HOME:-/}" || cd /
    eval "set -- $(cat "$job/words")"
    LABKIT_JOB=$job/
    export LABKIT_JOB
    exec "$@" 7>&- 8>&- 9>&9 </dev/null
}

# Sleeps on the workload's lock, so that it costs nothing while the workload runs.
watch() {
    tick
    begun=$now since=$now seen=
    while held work; do
        tick
        left=$((seconds * 100 - now + begun))
        if [ "$left" -le 0 ]; then
            stop deadline
            return
        fi
        step=$(((left + 99) / 100))
        if [ "$stall" -gt 0 ]; then
            written=$(ls -ln "$job"/out.0* "$job"/err.0* 2>/dev/null)
            # A full disk stops what is kept, not what is printed.
            if [ "$written" != "$seen" ] || [ -e "$job/out.full" ] || [ -e "$job/err.full" ]; then
                seen=$written since=$now
            fi
            if [ $((now - since)) -ge $((stall * 100)) ]; then
                stop stall
                return
            fi
            if [ "$step" -gt $((stall / 8 + 1)) ]; then step=$((stall / 8 + 1)); fi
        fi
        await work "$step"
    done
}

stop() {
    record why "$1"
    end_tree "$grace"
}

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

# --- looking --------------------------------------------------------------------------------

look() {
    nonce=$1 stream=$2 offset=$3 limit=$4 patience=$5
    facts
    if [ "$patience" -gt 0 ] && [ "$held" ]; then
        await out "$patience"
        facts
    fi
    say "labkit-job $nonce $job"
    say "now $now_boot $now"
    say "born $born"
    say "held $held"
    say "main $main"
    say "why $why"
    say "full $full"
    parts
}

# The locks before the records: who let go of a lock has written the record by then.
facts() {
    turns=0
    until [ -e "$job/born" ] || [ "$turns" -ge 10 ]; do
        turns=$((turns + 1))
        nap
    done
    boot='' born='' held=''
    now_boot=$(boot)
    if [ -e "$job/born" ]; then
        read -r born <"$job/born"
        # shellcheck disable=SC2086
        set -- $born
        boot=$1 locks=$4
    fi
    if [ "$boot" = "$now_boot" ]; then
        for name in work out sup; do
            if held "$name"; then held="$held $name"; fi
        done
    fi
    tick
    main='' why='' full=''
    read -r main 2>/dev/null <"$job/main"
    read -r why 2>/dev/null <"$job/why"
    for name in out err; do
        lost=
        read -r lost 2>/dev/null <"$job/$name.full" && full="$full $name:$lost"
    done
}

# Which parts of the output there are, and the bytes that were asked for, as far as one file has them.
parts() {
    picked='' count=0
    files=$(ls -ln "$job")
    while read -r _ _ _ _ size _ _ _ name; do
        case $name in out.[0-9]* | err.[0-9]*) ;; *) continue ;; esac
        at=${name#*.}
        at=${at#"${at%%[!0]*}"}
        at=${at:-0}
        say "file ${name%%.*} $at $size"
        if [ "${name%%.*}" = "$stream" ] && [ -z "$picked" ] && [ "$offset" -lt $((at + size)) ]; then
            picked=$name
            if [ "$offset" -lt "$at" ]; then offset=$at; fi
            skip=$((offset - at)) count=$((at + size - offset))
            if [ "$count" -gt "$limit" ]; then count=$limit; fi
        fi
    done <<END
$files
END
    say "part $offset $count"
    say
    if [ "$count" -gt 0 ]; then
        tail -c "+$((skip + 1))" "$job/$picked" | head -c "$count"
    fi
}

list() {
    spool "$1"
    say "labkit-jobs $2"
    for job in "$spool"/*/; do
        job=${job%/}
        case ${job##*/} in *[!a-z0-9-]*) continue ;; esac
        if [ -d "$job" ]; then look "$2" out 0 0 0; fi
    done
}

cancel() {
    if [ -d "$job" ]; then
        facts
        if [ "$born" ] && [ -z "$held" ]; then return 0; fi
        record why cancel
    fi
    end_tree "$1"
    [ ! -d "$job" ] || await sup 5
    left=$(members)
    [ -z "$left" ] || fail "these do not end:" $left
}

forget() {
    facts
    [ -z "$held" ] || fail "it still runs ($held)"
    mv "$job" "$job.gone.$$" && rm -rf "$job.gone.$$"
}

verb=$1
shift
case $verb in
    start | list) "$verb" "$@" ;;
    supervise | ended | become | look | cancel | forget)
        job=$1
        shift
        "$verb" "$@"
        ;;
esac
