# programs: dmesg perl setsid
# --- running --------------------------------------------------------------------------------

limits() {
    read -r seconds cap grace mask <"$job/limits"
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

# A shell cannot tell the end by signal 9 from the code 137; perl can. When systemd stops a unit all
# of it is asked to end, and the one who waits for the end has to see it.
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
$SIG{TERM} = "IGNORE";
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
    # A small host may have perl without any of its modules.
    if perl -Mstrict -MPOSIX -e 1 2>/dev/null; then waits=perl; else waits=sh; fi
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
    begun=$now
    while held work; do
        tick
        left=$((seconds * 100 - now + begun))
        if [ "$left" -le 0 ]; then
            stop deadline
            return
        fi
        await work $(((left + 99) / 100))
    done
}

stop() {
    record why "$1"
    end_tree "$grace"
}

