# programs: flock
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

