# programs: docker esxcli virsh
# --- what labkit asks for, each in one go

# Changes nothing, and leaves no trace.
hello() {
    host_boot
    machine=none kinds=
    [ ! -r /etc/machine-id ] || read -r machine < /etc/machine-id
    ! command -v esxcli > /dev/null || kinds="$kinds esxi"
    ! guest state > /dev/null 2>&1 || kinds="$kinds box"
    ! command -v virsh > /dev/null || kinds="$kinds kvm"
    ! command -v docker > /dev/null || kinds="$kinds docker"
    # Below what only ESXi has is VMkernel, and no Linux.
    [ "$(uname -s)" != Linux ] || case $kinds in *esxi*) ;; *) kinds="$kinds linux" ;; esac
    encode "${kinds# }"
    answer facts "$(id -u)" "$code" "$boot" "${machine:-none}"
    find_place || return 0
    read_lease
    state_of_lease
    [ -z "$lease" ] || answer lease "$lives" "$lease"
    tell_open
}

heard() {
    find_place || { answer fenced free; finish 1; }
    token=$1
    still_ours
    beat=0
    [ ! -r "$home/beat" ] || IFS= read -r beat < "$home/beat"
    echo $((${beat:-0} + 1)) > "$home/beat"
}

# as TOKEN OWNER CONTROLLER PID STARTED BOOT STUDY SILENCE DEADMAN FLAGS [LEASE]
introduce() {
    command -v cksum > /dev/null || command -v od > /dev/null ||
        fail "this host has neither cksum nor od, without which no journal can be kept"
    next_line
    # shellcheck disable=SC2086
    set -- $line
    shift
    me="$1 $2 $3 $4 $5 $6 $7" silence=$8 deadman=$9
    shift 9
    decode "${2:-%}"
    summed=$plain
    case $1 in *joining*) joining=yes ;; esac
    case $1 in *breaking*) breaking=yes ;; esac
    case $1 in *forgetting*) forgetting=yes ;; esac
}

# set NUMBER|new [SUM LENGTH], then lines `hold`, `back` and `make` in this order.
change() {
    introduce
    acquire change
    echo $$ > "$home/beat"
    next_line
    # shellcheck disable=SC2086
    set -- $line
    shift
    open_set "$@"
    intent='' stale='' makes=''
    IFS=$nl
    for line in $lines; do
        IFS=' '
        # shellcheck disable=SC2086
        set -- $line
        case $1 in
            hold) shift; hold "$@" ;;
            back) keep_intent; find_key "$2" && give_back ;;
            make)
                shift
                keep_intent
                makes="$makes$*$nl"
                if [ "${8:-%}" != % ] && find_key "$1"; then get_key; question "$1" "$reads" "$8"; fi
                ;;
        esac
    done
    IFS=' '
    keep_intent
    make_rounds
}

# open_set NUMBER|new [SUM LENGTH], both as the holder of the set was told them the last time
open_set() {
    whole=yes
    if [ "$1" != new ]; then
        file=$home/$1.open
        shift
        if is_whole "$@"; then trusted=yes; fi
        load_or_refuse "$file"
        trusted=
        return
    fi
    last_number
    number=$((number + 1)) keys=0 order='' fresh=yes
    file=$home/$number.open
    begin="begin $number $lease"
}

# hold THING ORIGINAL PERSISTS TENTHS READS UNDO: what it was when it was planned, it must still be.
hold() {
    if find_key "$1"; then return; fi
    if [ -z "$fresh" ] && find_later && [ "$later" ] && [ "$(heir_of "$1")" ]; then
        answer refused "$1" a%20later%20change%20set%20has%20it
        stale=yes
        return
    fi
    if look "$5"; then
        [ "$text" = "$2" ] || { answer stale "$1" "$text"; stale=yes; }
    else
        why_not "$5"
        answer refused "$1" "$said"
        stale=yes
    fi
    intent="$intent $*"
}

# From here on a change can be put back, whatever happens.
keep_intent() {
    if [ "$stale" ]; then free_lease; finish 1; fi
    [ "$intent$fresh" ] || return 0
    if ! keep_on_disk; then
        why=$said
        if [ "$fresh" ]; then rm -f "$file"; free_lease; fi
        fail "the journal cannot be written: $why"
    fi
    intent='' fresh=
    load "$file" || fail "the journal cannot be read: $file"
    answer set "$number"
}

keep_on_disk() {
    # shellcheck disable=SC2086
    if [ "$fresh" ]; then append $begin || return 1; fi
    # shellcheck disable=SC2086
    if [ "$intent" ]; then append intent $intent || return 1; fi
    if [ "$fresh" ]; then durable "$file" "$home"; else durable "$file"; fi
}

give_back() {
    get_key
    find_later
    [ "$state" ] && [ "$state" != restored ] || return 0
    still_ours
    put_back
    tell_outcome
    eval "state_$key=restored"
    case $outcome in lacking | failed) finish 1 ;; esac
}

# Lines `make THING WANTED KNOWN TENTHS CUTS WRITES ROUND TELLER`. Those of one round, which stand one
# after another, are about things apart: their commands run at the same time.
make_rounds() {
    those='' round=''
    IFS=$nl
    for line in $makes; do
        IFS=' '
        # shellcheck disable=SC2086
        set -- $line
        if [ "${7:-0}" != "$round" ] || [ "$round" = 0 ]; then make_round; fi
        round=${7:-0} those="$those$*$nl"
    done
    IFS=' '
    make_round
}

# What was seen of things counts until one is changed.
make_round() {
    [ "$those" ] || return 0
    at_once='' changed=''
    if [ "$those" != "${those%%"$nl"*}$nl" ]; then at_once=yes; fi
    [ "$seen" ] || see
    each begin_make
    flush || fail "the journal cannot be written: $said"
    if [ "$at_once" ]; then each start_make; each await_make; fi
    if [ "$changed" ]; then see; fi
    unmade=
    each end_make
    those=
    [ -z "$unmade" ] || finish 1
}

each() {
    IFS=$nl
    for one in $those; do
        IFS=' '
        # shellcheck disable=SC2086
        "$1" $one
    done
    IFS=' '
}

begin_make() {
    find_key "$1" || fail "the journal has no $1"
    get_key
    look_at "$1" "$reads" || { at_once=''; refused "$1" "$reads"; }
    due='' waited=0 words='' before=$text
    if [ "$text" != "$3" ] && ! is_wanted "$2"; then
        may_write "$1"
        still_ours
        if [ "$5" = 1 ]; then arm; fi
        [ -z "$at_once" ] || note writing "$1" "$2"
        [ "$at_once" ] || insist writing "$1" "$2"
        if [ "$persists" = 1 ]; then durable "$file" || fail "the journal cannot be written: $said"; fi
        due=yes
    fi
    eval "due_$key=\$due before_$key=\$before"
}

# What it prints, if anything, is kept beside the journal until it has ended.
start_make() {
    find_key "$1"
    eval "due=\$due_$key"
    [ "$due" ] || return 0
    changed=yes
    {
        act "$6"
        code=$?
        if [ "$said" ] || [ -e "$home/said-$key" ]; then printf %s "$said" > "$home/said-$key"; fi
        exit "$code"
    } &
    eval "job_$key=$!"
}

await_make() {
    find_key "$1"
    eval "due=\$due_$key"
    [ "$due" ] || return 0
    eval "wait \"\$job_$key\""
    eval "ended_$key=$?"
}

end_make() {
    find_key "$1"
    get_key
    eval "due=\$due_$key before=\$before_$key text=\$before_$key"
    if [ "$due" ]; then
        acted "$6" || { refused_with "$1"; return; }
        words=$said
        if [ "$persists" = 1 ]; then
            sync
            lasting=yes
        fi
        look_until "$reads" "$3" "$2" "$4" "$1" || { refused "$1" "$reads"; return; }
    else
        waited=0 words=
    fi
    questions=${questions#"$1 $reads$nl"}
    note wrote "$1" "$text"
    eval "state_$key=wrote ours_$key=\$text"
    encode "$words"
    answer made "$1" "$text" "$before" "$waited" "$code"
    if [ "$2" != %- ] && ! is_wanted "$2"; then unmade=yes; fi
}

acted() {
    if [ -z "$at_once" ]; then
        act "$1"
        ended=$?
        see
        return "$ended"
    fi
    said=
    if [ -e "$home/said-$key" ]; then
        said=$(cat "$home/said-$key")
        rm -f "$home/said-$key"
    fi
    eval "return \"\$ended_$key\""
}

# What is there is what was there, or what we made, or what a write of ours left half done.
may_write() {
    case $state in writing | restoring) return ;; esac
    [ "$text" = "$orig" ] || { [ "$state" = wrote ] && [ "$text" = "$ours" ]; } && return
    answer changed "$1" "$text" "$orig"
    finish 1
}

refused() { why_not "$2"; not_made "$1" "$said"; }

refused_with() { encode "${said:-it ended with a code other than 0}"; not_made "$1" "$code"; }

# The others of its round are under way already: what became of them is found out first.
not_made() {
    note refused "$1" "$2"
    answer refused "$1" "$2"
    unmade=yes
    [ "$at_once" ] || finish 1
}

# restore all|NUMBER
restore() {
    introduce
    if ! find_place || is_gone "$1"; then
        [ "$1" = all ] || answer gone
        return
    fi
    acquire restore
    restore_sets "$1"
    free_lease
}

is_gone() { [ "$1" != all ] && [ ! -e "$home/$1.open" ] && [ ! -e "$home/$1.closed" ]; }

# leave: what is made stays, and whoever comes next is told of it.
leave() {
    introduce
    acquire change
    rm -f "$home/lease" "$home/alive-$token" "$home/beat"
}

restore_by_hand() {
    by_hand=yes
    find_place || fail "nothing was changed here"
    token=hand-$$ me="hand-$$ by%20hand $(uname -n) $$ 0 0 restore" silence=900
    acquire restore
    restore_sets all
    free_lease
}

# The last change sets, line by line as they are.
journal() {
    find_place || return 0
    last_number
    one=$((number > $1 ? number - $1 : 0))
    while [ "$one" -lt "$number" ]; do
        one=$((one + 1))
        for name in "$one.open" "$one.closed"; do
            [ -e "$home/$name" ] || continue
            answers=$answers$(sed "s/^/=$mark line $name /" "$home/$name")
            # A torn last line stays without its end, and is the last to be printed so.
            if [ -z "$(tail -c 1 "$home/$name")" ]; then answers=$answers$nl; else answers="$answers$nl=$mark torn $name$nl"; fi
        done
    done
}

mark=${2:-labkit} our_lease='' joining=no breaking=no forgetting=no stranger=no fresh='' token=''
case ${1:-} in
    hello | show | change | leave) "$1" ;;
    restore) if [ $# -gt 1 ]; then restore "$3"; else restore_by_hand; fi ;;
    confirm | journal) "$1" "$3" ;;
    watch | deadman)
        shift
        home=${0%/*}
        if [ $# -gt 1 ]; then watch "$@"; else deadman "$@"; fi
        ;;
    *) sed -n '2,5s/^# //p' "$0" >&2; exit 2 ;;
esac
finish
