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
    read_frames || return 1
    IFS=$nl
    for line in $frames; do
        IFS=' '
        frame || return 1
    done
    IFS=' '
}

# Sets `frames`: the whole lines of the file. Only one that is not known to be whole can lack its end.
read_frames() {
    if [ "$trusted" ]; then
        frames=$(cat "$file")
        return
    fi
    frames=$(cat "$file" && echo .) || return 1
    frames=${frames%.}
    frames=${frames%"${frames##*"$nl"}"}
    case $nl$frames in *"$nl$nl"*) return 1 ;; esac
}

frame() {
    # shellcheck disable=SC2086
    set -- $line
    [ "$1" = labkit1 ] && [ $# -gt 3 ] || return 1
    if [ -z "$trusted" ]; then
        sum_of "${line#"labkit1 $2 $3 "}"
        [ "$sum" = "$2 $3" ] || return 1
    fi
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
        restored | original | given-up) taken=4 ;;
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

# A sum for each line takes its time when there are hundreds. Whoever holds the set is told the sum
# of the whole file, and says it the next time: if it is still that, each line is as it was checked.
tell_whole() {
    # shellcheck disable=SC2046
    if [ -s "$file" ] && command -v cksum > /dev/null; then answer whole $(cksum < "$file"); fi
}

is_whole() {
    [ $# = 2 ] && command -v cksum > /dev/null && [ -r "$file" ] || return 1
    told="$1 $2"
    # shellcheck disable=SC2046
    set -- $(cksum < "$file")
    [ "$1 $2" = "$told" ]
}

load_or_refuse() {
    [ -e "$1" ] || { answer gone; finish 1; }
    load "$1" && return
    encode "$1"
    answer damaged "$code"
    finish 1
}

