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
    say "owner $owner"
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
    main='' why='' full='' owner=''
    read -r main 2>/dev/null <"$job/main"
    read -r why 2>/dev/null <"$job/why"
    read -r owner 2>/dev/null <"$job/owner"
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

