# programs: busctl loginctl setsid systemd-run
# --- starting -------------------------------------------------------------------------------

spool() {
    if [ "$1" ]; then
        spool=$1
    elif [ "${LABKIT_JOBS:-}" ]; then
        spool=$LABKIT_JOBS
    elif [ "$(id -u)" != 0 ]; then
        spool=${HOME:?}/.local/state/labkit/jobs
    elif [ -d /run/labkit/etc ] && ! [ -w /var/lib ]; then
        spool=/run/labkit-jobs # a host of a box, whose own folders are in /run
    else
        spool=/var/lib/labkit/jobs
    fi
}

start() {
    mask=$(umask)
    umask 077
    # What a shell catches, unlike what it ignores, its children do not inherit.
    trap : HUP PIPE
    spool "$1"
    job=$spool/$2 key=$2 seconds=$3 cap=$4 grace=$5 words=$6 owner=${7:-}
    free="to free its key: host.job('$key').forget()"
    missing=
    for word in awk cat dd grep head ls mkdir mv rm sleep sync tail wc; do
        has "$word" || missing="$missing $word"
    done
    [ -z "$missing" ] || fail "this host lacks:$missing"
    mkdir -p "${spool%/*}/" || exit 1
    own_place "$spool" 700 || exit 1
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
        say "$seconds $cap $grace $mask" >"$job/limits" && [ -s "$job/limits" ] &&
        owned "$owner" && reserve born main why out.full err.full || return 1
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

# Who began it, or has gone on with it since, and for which run: whoever finds it asks if he lives.
owned() { say "$1" >"$job/owner.new" && mv "$job/owner.new" "$job/owner"; }

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
# lingering a user's units end when the user logs out. What its command leaves behind belongs to the
# job, and would be ended with the main process of the unit; older ones know no other way.
as_unit() {
    whose=--system
    if [ "$(id -u)" != 0 ]; then
        [ "$(loginctl show-user "$(id -un)" -p Linger --value)" = yes ] || return 1
        whose=--user
        : "${XDG_RUNTIME_DIR:=/run/user/$(id -u)}"
        export XDG_RUNTIME_DIR
    fi
    unit -p ExitType=cgroup || unit
}

unit() {
    systemd-run "$whose" --quiet --collect --unit="labkit-job-$key" \
        --description="labkit job $key" -p Type=exec "$@" -p KillMode=control-group \
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

