#!/bin/sh
# runner: one detached job on this host; all that is known of it is in its folder.
#
# Sent as `sh -c 'eval "$1"' runner TEXT VERB ...`, so that it can keep its own text in the folder
# of each job; kept, it is called `sh FOLDER/runner '' VERB ...`. POSIX sh, so that dash, bash and
# BusyBox run it alike.
#
#   start SPOOL KEY SECONDS CAP GRACE WORDS OWNER   once for each KEY; prints the folder
#   look FOLDER NONCE STREAM OFFSET LIMIT PATIENCE  what there is to know, and a part of the output
#   list SPOOL NONCE                                the same of all jobs
#   cancel FOLDER GRACE                             ends every process of a job
#   forget FOLDER                                   removes all that is kept of a job that is over
#   owned FOLDER OWNER                              says who goes on with it
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

