# Keeps a journal of what labkit changes on this host, and puts it back. It needs nothing of labkit:
#
#   sh labkit.sh hello       who is changing this host, and what is not put back
#   sh labkit.sh restore     puts everything back that is still ours
#
# The journal is a file for each change set: N.open, and N.closed once all is put back. Each line is
# a frame `labkit1 CKSUM LENGTH FIELDS`, checksum and length by cksum(1) over the fields. What was
# there before is on the disk before anything is written; marks around each write say how far it
# came. So whenever this is killed, the journal tells what to put back.
#
# What stands in the middle of a line is kept encoded; two texts are equal when their codes are.
set -f
IFS=' '
LC_ALL=C
export LC_ALL
outer_mask=$(umask)
umask 077
nl='
'
tab=$(printf '\t')
cr=$(printf '\r')
dead_after=45
answers=
marks=

# --- words: a field has no space and no newline, and is never empty

encode() {
    left=$1 code=
    [ -n "$left" ] || code=%
    while [ -n "$left" ]; do
        head=${left%%["% $tab$cr$nl"]*}
        code=$code$head
        left=${left#"$head"}
        case $left in
            '') ;;
            %*) code=$code%25 ;;
            ' '*) code=$code%20 ;;
            "$tab"*) code=$code%09 ;;
            "$cr"*) code=$code%0D ;;
            *) code=$code%0A ;;
        esac
        left=${left#?}
    done
}

decode() {
    left=$1 plain=
    while :; do
        case $left in *%*) ;; *) break ;; esac
        plain=$plain${left%%\%*}
        left=${left#*%}
        case $left in
            25*) plain=$plain% ;;
            20*) plain="$plain " ;;
            09*) plain=$plain$tab ;;
            0D*) plain=$plain$cr ;;
            0A*) plain=$plain$nl ;;
        esac
        left=${left#??}
    done
    plain=$plain$left
}

# The fields are encoded already.
answer() { answers="$answers=$mark $*$nl"; }

finish() {
    flush || { encode "$said"; answer failed "$code"; set -- 1; }
    printf %s "$answers"
    exit "${1:-0}"
}

fail() {
    encode "$1"
    answer failed "$code"
    finish 1
}

# --- the disk

# The place is found anew each time; only `make_place` makes it.
find_place() {
    for home in "${LABKIT_CHANGES:-}" /var/lib/labkit/changes "${HOME:-}/.local/state/labkit/changes"; do
        [ -n "$home" ] || continue
        if [ -d "$home" ] && [ -w "$home" ]; then return 0; fi
        if [ -n "${LABKIT_CHANGES:-}" ]; then return 1; fi
    done
    return 1
}

make_place() {
    if find_place; then return; fi
    for home in "${LABKIT_CHANGES:-}" /var/lib/labkit/changes "${HOME:-}/.local/state/labkit/changes"; do
        [ -n "$home" ] || continue
        case $home in /var/*) [ "$(id -u)" = 0 ] || continue ;; esac
        if said=$(mkdir -p "$home" 2>&1) && [ -w "$home" ]; then
            durable "${home%/*}"
            return
        fi
        if [ -n "${LABKIT_CHANGES:-}" ]; then break; fi
    done
    fail "the journal has no place: ${said:-$home cannot be written to}"
}

# Not every `sync` takes a name; BusyBox has `fsync` for it.
durable() {
    if said=$(sync "$@" 2>&1); then return 0; fi
    case $said in
        *[Uu]sage* | *operand* | *option*) fsync "$@" 2> /dev/null || sync ;;
        *) return 1 ;;
    esac
}

# A tail without its newline is a frame that was never acted upon.
drop_torn_tail() {
    if [ -s "$1" ] && [ -n "$(tail -c 1 "$1" | tr '\000' x)" ]; then
        whole=$(($(wc -c < "$1") - $(tail -n 1 "$1" | wc -c)))
        said=$(dd if=/dev/null of="$1" bs=1 seek="$whole" 2>&1) || return 1
    fi
}

# The shell's own words are "I/O error" for everything; `tee` says why it cannot write.
append() {
    sum_of "$*"
    if printf 'labkit1 %s %s\n' "$sum" "$*" 2> /dev/null >> "$file"; then return 0; fi
    drop_torn_tail "$file" &&
        said=$(printf 'labkit1 %s %s\n' "$sum" "$*" | tee -a "$file" 2>&1 > /dev/null) && return
    why=$said
    drop_torn_tail "$file"
    said=$why
    return 1
}

# cksum(1) of a line, its end included. Not every BusyBox has it; in the shell it takes its time.
sum_of() {
    if ! command -v cksum > /dev/null; then
        slow_sum "$1"
        return
    fi
    sum=$(
        cksum << line
$1
line
    )
}

slow_sum() {
    crc=0 length=0
    for byte in $(printf '%s\n' "$1" | od -An -v -tu1 | tr '\n' ' '); do
        length=$((length + 1))
        add_byte
    done
    left=$length
    while [ "$left" -gt 0 ]; do
        byte=$((left & 255)) left=$((left >> 8))
        add_byte
    done
    sum="$((crc ^ 0xFFFFFFFF)) $length"
}

# By the polynomial of POSIX, a bit at a time.
add_byte() {
    crc=$((crc ^ byte << 24)) bit=8
    while [ "$bit" -gt 0 ]; do
        crc=$(((crc << 1 ^ (crc >> 31 & 1) * 0x04C11DB7) & 0xFFFFFFFF)) bit=$((bit - 1))
    done
}

# A mark of what is done can wait for the next line; a mark of what is about to be done cannot.
note() { marks="$marks$* "; }

flush() {
    [ "$marks" ] || return 0
    # shellcheck disable=SC2086
    append ${marks% } || return 1
    marks=
}

insist() { note "$@"; flush || fail "the journal cannot be written: $said"; }

# A whole small file, or the old one.
replace() {
    beside "$1" "$2" && durable "$1.new" && said=$(mv -f "$1.new" "$1" 2>&1) && durable "$home"
}

beside() {
    printf '%s\n' "$2" 2> /dev/null > "$1.new" ||
        said=$(printf '%s\n' "$2" | tee "$1.new" 2>&1 > /dev/null)
}

# One at a time. The commands that are run close 9, or what they leave behind would hold the lock.
alone() {
    if command -v flock > /dev/null; then
        exec 9> "$home/lock"
        flock -w 20 9 || fail "another labkit command is at work on this host"
        return
    fi
    tries=0
    until mkdir "$home/held" 2> /dev/null; do
        holder=$(cat "$home/held/pid" 2> /dev/null)
        tries=$((tries + 1))
        if [ -n "$holder" ] && ! kill -0 "$holder" 2> /dev/null; then
            mv "$home/held" "$home/held.$$" 2> /dev/null && rm -rf "$home/held.$$"
        elif [ "$tries" -gt 20 ]; then
            fail "another labkit command is at work on this host: process ${holder:-unknown}"
        else
            sleep 1
        fi
    done
    echo $$ > "$home/held/pid"
    trap 'rm -rf "$home/held"' EXIT
}

# --- commands, in a subshell that has nothing of ours: a new shell for each would take twice as long

forget_us() {
    umask "$outer_mask"
    set +f
    unset IFS
    # shellcheck disable=SC2086
    unset -f \
        encode decode answer finish fail find_place make_place durable drop_torn_tail append \
        sum_of slow_sum add_byte note flush insist replace beside alone forget_us look act why_not \
        strip look_until is_wanted numbers insert last_number load frame record find_key mark_key \
        get_key load_or_refuse host_boot read_lease write_lease is_alive state_of_lease detached \
        acquire take refuse_unfinished tell_open still_ours free_lease watch listen put_back \
        undo_key hand_down heir_of find_later restore_sets restore_set tell_outcome tell_untouched \
        close_set arm deadman confirm hello show heard introduce change open_set hold keep_intent \
        keep_on_disk give_back make may_write refused refused_with restore leave by_hand journal
}

# Sets `text` to all that was printed, encoded; its code is the command's.
look() {
    decode "$1"
    text=$(forget_us; eval "$plain" 2> /dev/null < /dev/null 9>&-; code=$?; printf .; exit "$code")
    ended=$?
    encode "${text%.}"
    text=$code
    return "$ended"
}

# Sets `said` to what was printed.
act() {
    decode "$1"
    said=$(forget_us; eval "$plain" 2>&1 < /dev/null 9>&-)
}

why_not() { act "$1"; encode "${said:-it ended with code $ended}"; said=$code; }

strip() {
    bare=${1#"${1%%[![:space:]]*}"}
    bare=${bare%"${bare##*[![:space:]]}"}
}

# look_until READS KNOWN WANTED TENTHS: until the text is the one we know, or bare it is the wanted,
# or time is over. With neither to go by (%-): until it is no longer `before` and stands still.
look_until() {
    waited=0 last=
    while :; do
        look "$1" || return 1
        if [ "$text" = "$2" ] || is_wanted "$3"; then return 0; fi
        if [ "$2$3" = %-%- ] && [ "$text" != "$before" ] && [ "$text" = "$last" ]; then return 0; fi
        if [ "$waited" -ge "$4" ]; then return 0; fi
        last=$text
        sleep 0.2 2> /dev/null || sleep 1
        waited=$((waited + 2))
    done
}

is_wanted() {
    [ "$1" != %- ] || return 1
    decode "$text"
    strip "$plain"
    encode "$bare"
    [ "$code" = "$1" ]
}

# --- reading a change set: field names with the number of the key, as sh has no tables

# Sets `found`: the numbers of the change sets that are `open` or `closed`, in order.
numbers() {
    found=
    set +f
    for path in "$home"/*."$1"; do
        new=${path##*/}
        new=${new%.*}
        case $new in *[!0-9]*) ;; *) insert ;; esac
    done
    set -f
}

insert() {
    lower=
    for one in $found; do
        if [ "$one" -gt "$new" ]; then break; fi
        lower="$lower$one "
    done
    found="$lower$new ${found#"$lower"}"
}

# Sets `number`: the last that was given to a change set.
last_number() {
    number=0
    set +f
    for path in "$home"/*.open "$home"/*.closed; do
        new=${path##*/}
        new=${new%.*}
        case $new in *[!0-9]*) ;; *) [ "$new" -le "$number" ] || number=$new ;; esac
    done
    set -f
}

load() {
    file=$1 number=${1##*/} keys=0 order=''
    number=${number%.*}
    while IFS= read -r line; do
        frame || return 1
    done < "$file"
}

frame() {
    # shellcheck disable=SC2086
    set -- $line
    [ "$1" = labkit1 ] && [ $# -gt 3 ] || return 1
    sum_of "${line#"labkit1 $2 $3 "}"
    [ "$sum" = "$2 $3" ] || return 1
    shift 3
    while [ $# -gt 0 ]; do record "$@" && shift "$taken" || return 1; done
}

# Sets `taken`: how many of its words are the first record.
record() {
    kind=$1
    taken=$#
    shift
    case $kind in
        intent)
            while [ $# -ge 6 ]; do
                keys=$((keys + 1))
                eval "thing_$keys=\$1 orig_$keys=\$2 persists_$keys=\$3 settle_$keys=\$4 reads_$keys=\$5 undo_$keys=\$6 state_$keys= ours_$keys="
                shift 6
            done
            ;;
        writing | wrote | refused | restoring) taken=3 ;;
        restored | original) taken=4 ;;
    esac
    case $kind in writing | wrote | restoring | restored | original) find_key "$1" && mark_key "$@" ;; esac
}

find_key() {
    key=$keys
    while [ "$key" -gt 0 ]; do
        eval "thing=\$thing_$key"
        [ "$thing" != "$1" ] || return 0
        key=$((key - 1))
    done
    return 1
}

mark_key() {
    case $kind in
        original) eval "orig_$key=\$2 undo_$key=\$3" ;;
        wrote) eval "state_$key=wrote ours_$key=\$2" ;;
        *) eval "state_$key=\$kind" ;;
    esac
    case $kind in writing | wrote)
        case " $order " in *" $key "*) order="${order%%" $key "*} ${order#*" $key "}" ;; esac
        order=" $key $order "
        ;;
    esac
}

get_key() {
    eval "thing=\$thing_$key orig=\$orig_$key persists=\$persists_$key settle=\$settle_$key reads=\$reads_$key undo=\$undo_$key state=\$state_$key ours=\$ours_$key"
}

load_or_refuse() {
    [ -e "$1" ] || { answer gone; finish 1; }
    load "$1" && return
    encode "$1"
    answer damaged "$code"
    finish 1
}

# --- leases: TOKEN OWNER CONTROLLER PID STARTED BOOT SINCE STUDY HOSTBOOT

host_boot() {
    boot=none
    # shellcheck disable=SC2162
    [ ! -r /proc/sys/kernel/random/boot_id ] || read boot < /proc/sys/kernel/random/boot_id
}

read_lease() {
    lease='' lease_token=-
    [ -r "$home/lease" ] || return 0
    while IFS= read -r line; do
        # shellcheck disable=SC2086
        set -- $line
        sum_of "${line#"labkit1 $2 $3 "}"
        if [ "$1" = labkit1 ] && [ "$sum" = "$2 $3" ]; then
            shift 3
            lease="$*" lease_token=$1
        fi
    done < "$home/lease"
}

# It ends with the host's boot, so that it need not outlive a power cut.
write_lease() {
    sum_of "$1"
    beside "$home/lease" "labkit1 $sum $1" && said=$(mv -f "$home/lease.new" "$home/lease" 2>&1)
}

# The watch of a lease holds a lock that the kernel lets go of when it dies.
is_alive() {
    [ -e "$home/alive-$1" ] || return 1
    if command -v flock > /dev/null; then
        ! flock -n "$home/alive-$1" true
    else
        kill -0 "$(cat "$home/alive-$1")" 2> /dev/null
    fi
}

state_of_lease() {
    host_boot
    if [ -z "$lease" ]; then lives=free
    elif [ "${lease##* }" != "$boot" ]; then lives=rebooted
    elif is_alive "$lease_token"; then lives=alive
    else lives=silent; fi
}

# As a process of its own: it lives on when the session and its group have ended.
detached() {
    if command -v setsid > /dev/null; then
        said=$(setsid sh "$home/labkit.sh" "$@" 2> /dev/null < /dev/null 9>&- &)
    else
        said=$(nohup sh "$home/labkit.sh" "$@" 2> /dev/null < /dev/null 9>&- &)
    fi
    [ "$said" = ready ]
}

# acquire TASK, with what the controller said of itself in `me` (TOKEN OWNER ... STUDY)
acquire() {
    make_place
    alone
    read_lease
    state_of_lease
    # shellcheck disable=SC2086
    set -- "$1" $me
    task=$1 token=$2 who="$3 $4 $5 $6 $7"
    case $lease in
        "$token "*) ;;
        *" $who "*) token=$lease_token ;;
        *)
            if [ "$joining" = yes ]; then answer fenced "$lives" "$lease"; finish 1; fi
            if [ $lives = alive ] && [ "$breaking" != yes ]; then answer held "$lease"; finish 1; fi
            if [ "$task" != restore ]; then refuse_unfinished; fi
            take "$8"
            ;;
    esac
    answer token "$token"
    is_alive "$token" || detached watch "$token" "$silence" || fail "no process can stay on this host to watch over the changes"
}

take() {
    if [ "$(cat "$home/labkit.sh" 2> /dev/null)" != "$script" ]; then
        replace "$home/labkit.sh" "$script" || fail "the journal cannot be written: $said"
    fi
    rm -f "$home/alive-$lease_token"
    numbers open
    [ -z "$lease$found" ] || stranger=yes
    write_lease "$token $who $(date -u +%Y-%m-%dT%H:%M:%SZ) $1 $boot" ||
        fail "the journal cannot be written: $said"
    read_lease
}

refuse_unfinished() {
    numbers open
    [ -n "$found" ] || return 0
    tell_open
    finish 1
}

tell_open() {
    numbers open
    for one in $found; do
        IFS= read -r line < "$home/$one.open"
        # shellcheck disable=SC2086
        set -- $line
        if [ $# -gt 4 ]; then shift 4; fi
        answer open "$one" "$@"
    done
}

# Another may have been given this host while we were stopped.
still_ours() {
    IFS= read -r newest < "$home/lease" && [ "$newest" = "$our_lease" ] && return
    read_lease
    if [ "$lease_token" = "$token" ]; then
        our_lease=$newest
        return
    fi
    answer fenced taken "$lease"
    finish 1
}

free_lease() {
    numbers open
    [ -z "$found" ] || return 0
    rm -f "$home/lease" "$home/alive-$token" "$home/beat"
}

# Its lock says that the owner has been heard of; when nothing was heard for long, all goes back.
# It counts its own steps, so no change of the clock can make it early or late.
watch() {
    token=$1 silence=$2 quiet=0 last='' listening=
    listen
    echo ready
    exec > /dev/null
    while read_lease && [ "$lease_token" = "$token" ]; do
        sleep 5 8>&-
        beat=
        [ ! -r "$home/beat" ] || IFS= read -r beat < "$home/beat"
        if [ "$beat" != "$last" ]; then quiet=0 last=$beat; else quiet=$((quiet + 5)); fi
        if [ "$quiet" -ge "$dead_after" ]; then
            exec 8>&-
            listening=
        elif [ -z "$listening" ]; then
            listen
        fi
        if [ "$quiet" -ge "$silence" ]; then
            alone
            read_lease
            [ "$lease_token" != "$token" ] || restore_sets all
            free_lease
            exit
        fi
    done
    rm -f "$home/alive-$token"
}

listen() {
    exec 8> "$home/alive-$token"
    echo $$ >&8
    if command -v flock > /dev/null; then flock -n 8 || exit 1; fi
    listening=yes
}

# --- putting back

# Sets `outcome`, and `text` to what is there now.
put_back() {
    get_key
    words=%
    look "$reads" || { why_not "$reads"; text=$said outcome=lacking; return; }
    heir=
    [ -z "$later" ] || heir=$(heir_of "$thing" "$ours")
    if [ "$heir" ]; then
        hand_down
    elif [ "$text" = "$orig" ]; then
        outcome=already
    elif [ "$state" = wrote ] && [ "$text" != "$ours" ]; then
        outcome=left
    else
        undo_key
    fi
    [ $outcome = failed ] || note restored "$thing" "$outcome" "$text"
}

# Should the disk be full, putting back is better than the mark that says so.
undo_key() {
    outcome=restored before=$text
    note restoring "$thing" "$text"
    flush
    if [ "$persists" = 1 ]; then durable "$file"; fi
    act "$undo"
    words=$said
    # What outlives a power cut has to be there before the mark that says so.
    if [ "$persists" = 1 ]; then sync; fi
    look_until "$reads" "$orig" %- "$settle" || text=%
    encode "$words"
    words=$code
    [ "$text" = "$orig" ] || outcome=failed
}

# A later change set of the same owner began with our value: that one will go back to our original.
hand_down() {
    own=$file outcome=handed
    file=$home/$heir.open
    if ! append original "$thing" "$orig" "$undo" || ! durable "$file"; then
        encode "$said"
        words=$code outcome=failed
    fi
    file=$own
}

# heir_of THING [VALUE]: the first of `later` that has it in hand, if it began with that value.
heir_of() {
    for one in $later; do
        if load "$home/$one.open" && find_key "$1"; then
            get_key
            case $state in writing | wrote | restoring)
                if [ "${2:-$orig}" = "$orig" ]; then echo "$one"; fi
                return
                ;;
            esac
        fi
    done
}

# Sets `later`: the change sets that were begun after this one.
find_later() {
    later=
    numbers open
    for one in $found; do
        [ "$one" -le "$number" ] || later="$later $one"
    done
}

# Latest first. What cannot be put back keeps the set open, unless it is given up.
restore_sets() {
    numbers open
    latest_first=
    for one in $found; do latest_first="$one $latest_first"; done
    for one in $latest_first; do
        if [ "$1" = all ] || [ "$1" = "$one" ]; then restore_set "$home/$one.open"; fi
    done
}

restore_set() {
    drop_torn_tail "$1"
    if ! load "$1"; then
        encode "$1"
        answer damaged "$code"
        return
    fi
    kept=
    find_later
    for key in $order; do
        get_key
        [ "$state" = restored ] || { put_back; tell_outcome; }
    done
    flush
    if [ "$stranger" = yes ]; then tell_untouched; fi
    if [ -z "$kept" ] || [ "$forgetting" = yes ]; then close_set; else answer kept "$number"; fi
}

tell_outcome() {
    answer back "$number" "$thing" "$outcome" "$text" "$orig" "$words"
    case $outcome in lacking | failed) kept=yes ;; esac
}

# Without a mark we have not written it; should it have changed all the same, somebody wants to know.
tell_untouched() {
    key=0
    while [ "$key" -lt "$keys" ]; do
        key=$((key + 1))
        get_key
        if [ -z "$state" ]; then
            look "$reads" || continue
            [ "$text" = "$orig" ] || answer back "$number" "$thing" left "$text" "$orig" %
        fi
    done
}

close_set() {
    note closed
    flush
    durable "$file"
    rm -f "$home/$number.armed"
    said=$(mv -f "$file" "$home/$number.closed" 2>&1) || fail "the journal cannot be closed: $said"
    durable "$home"
    answer closed "$number"
}

# --- a dead-man for changes that can cut the way to this host

arm() {
    if [ -e "$home/$number.armed" ]; then return; fi
    encode "${SSH_CONNECTION:-}"
    replace "$home/$number.armed" "$deadman $$ $code" && append armed "$deadman" && durable "$file" ||
        fail "the journal cannot be written: $said"
    detached deadman "$number" || fail "no process can stay on this host to put the change back"
    answer armed "$deadman"
}

# Whoever still holds the lock when time is over hangs in the very change that cut us off.
deadman() {
    number=$1
    read -r deadman holder rest < "$home/$number.armed" || exit
    echo ready
    exec > /dev/null
    while [ "$deadman" -gt 0 ]; do
        sleep 1
        [ -e "$home/$number.armed" ] || exit
        deadman=$((deadman - 1))
    done
    if command -v flock > /dev/null && ! flock -n "$home/lock" true; then
        kill -KILL "-$holder" 2> /dev/null || kill -KILL "$holder" 2> /dev/null
    fi
    alone
    if [ -e "$home/$number.armed" ]; then restore_set "$home/$number.open"; fi
}

# Only a connection that was made after the change shows that one can still be made.
confirm() {
    make_place
    alone
    if [ ! -e "$home/$1.armed" ]; then answer late; finish 1; fi
    IFS= read -r armed < "$home/$1.armed"
    encode "${SSH_CONNECTION:-}"
    if [ "$code" != % ] && [ "${armed##* }" = "$code" ]; then answer same; finish 1; fi
    rm -f "$home/$1.armed"
    file=$home/$1.open
    append confirmed
    answer confirmed
}

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
    [ "$(uname -s)" != Linux ] || kinds="$kinds linux"
    encode "${kinds# }"
    answer facts "$(id -u)" "$code" "$boot" "${machine:-none}"
    find_place || return 0
    read_lease
    state_of_lease
    [ -z "$lease" ] || answer lease "$lives" "$lease"
    tell_open
}

# Lines `show THING PROBE LIVE READS`; a line `beat TOKEN` says that the owner is still there.
show() {
    while IFS= read -r line; do
        # shellcheck disable=SC2086
        set -- $line
        if [ "$1" = beat ]; then
            heard "$2"
            continue
        fi
        thing=$2 live=%
        if [ "$3" != % ] && ! act "$3"; then
            encode "${said:-it says no}"
            answer state "$thing" unable "$code" %
        elif ! look "$5"; then
            why_not "$5"
            answer state "$thing" lacking "$said" %
        else
            shown=$text
            if [ "$4" != % ] && look "$4"; then live=$text; fi
            answer state "$thing" is "$shown" "$live"
        fi
    done
}

heard() {
    find_place || { answer fenced free; finish 1; }
    token=$1
    still_ours
    beat=0
    [ ! -r "$home/beat" ] || IFS= read -r beat < "$home/beat"
    echo $((${beat:-0} + 1)) > "$home/beat"
}

# as TOKEN OWNER CONTROLLER PID STARTED BOOT STUDY SILENCE DEADMAN FLAGS
introduce() {
    command -v cksum > /dev/null || command -v od > /dev/null ||
        fail "this host has neither cksum nor od, without which no journal can be kept"
    IFS= read -r line
    # shellcheck disable=SC2086
    set -- $line
    shift
    me="$1 $2 $3 $4 $5 $6 $7" silence=$8 deadman=$9
    shift 9
    case $1 in *joining*) joining=yes ;; esac
    case $1 in *breaking*) breaking=yes ;; esac
    case $1 in *forgetting*) forgetting=yes ;; esac
}

# set NUMBER|new, then lines `hold`, `back` and `make` in this order.
change() {
    introduce
    acquire change
    echo $$ > "$home/beat"
    IFS= read -r line
    # shellcheck disable=SC2086
    set -- $line
    open_set "$2"
    intent='' stale=''
    while IFS= read -r line; do
        # shellcheck disable=SC2086
        set -- $line
        case $1 in
            hold) shift; hold "$@" ;;
            back) keep_intent; find_key "$2" && give_back ;;
            make) keep_intent; shift; make "$@" ;;
        esac
    done
    keep_intent
}

open_set() {
    if [ "$1" != new ]; then
        load_or_refuse "$home/$1.open"
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

# make THING WANTED KNOWN TENTHS CUTS WRITES
make() {
    find_key "$1" || fail "the journal has no $1"
    get_key
    look "$reads" || refused "$1" "$reads"
    before=$text
    if [ "$text" != "$3" ] && ! is_wanted "$2"; then
        may_write "$1"
        still_ours
        if [ "$5" = 1 ]; then arm; fi
        insist writing "$1" "$2"
        if [ "$persists" = 1 ]; then durable "$file" || fail "the journal cannot be written: $said"; fi
        act "$6" || refused_with "$1"
        words=$said
        if [ "$persists" = 1 ]; then sync; fi
        look_until "$reads" "$3" "$2" "$4" || refused "$1" "$reads"
    else
        waited=0 words=
    fi
    note wrote "$1" "$text"
    eval "state_$key=wrote ours_$key=\$text"
    encode "$words"
    answer made "$1" "$text" "$before" "$waited" "$code"
    if [ "$2" != %- ] && ! is_wanted "$2"; then finish 1; fi
}

# What is there is what was there, or what we made, or what a write of ours left half done.
may_write() {
    case $state in writing | restoring) return ;; esac
    [ "$text" = "$orig" ] || { [ "$state" = wrote ] && [ "$text" = "$ours" ]; } && return
    answer changed "$1" "$text" "$orig"
    finish 1
}

refused() { why_not "$2"; note refused "$1" "$said"; answer refused "$1" "$said"; finish 1; }

refused_with() {
    encode "${said:-it ended with a code other than 0}"
    note refused "$1" "$code"
    answer refused "$1" "$code"
    finish 1
}

# restore all|NUMBER
restore() {
    introduce
    if ! find_place; then return; fi
    acquire restore
    restore_sets "$1"
    free_lease
}

# leave: what is made stays, and whoever comes next is told of it.
leave() {
    introduce
    acquire change
    rm -f "$home/lease" "$home/alive-$token" "$home/beat"
}

by_hand() {
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

[ -n "${script:-}" ] || script=$(cat "$0")
mark=${2:-labkit} our_lease='' joining=no breaking=no forgetting=no stranger=no fresh='' token=''
case ${1:-} in
    hello | show | change | leave) "$1" ;;
    restore) if [ $# -gt 1 ]; then restore "$3"; else by_hand; fi ;;
    confirm | journal) "$1" "$3" ;;
    watch | deadman)
        shift
        home=${0%/*}
        if [ $# -gt 1 ]; then watch "$@"; else deadman "$@"; fi
        ;;
    *) sed -n '2,5s/^# //p' "$0" >&2; exit 2 ;;
esac
finish
