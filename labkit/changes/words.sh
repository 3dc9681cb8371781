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
cr=$(printf '\t\r')
tab=${cr%?}
cr=${cr#?}
dead_after=45
answers=
by_hand=
marks=
lasting=
whole=
trusted=
questions=
teller=
seen=
summed=
lines=${lines:-} script=${script:-} keep=${keep:-}

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

# What was asked is given in `lines`, or comes by itself. Words of the shell cut it up, for `read` asks the
# kernel for each byte of what is no file: for a guest of User-Mode Linux that is most of its work.
all_lines() { [ "$lines" ] || lines=$(cat); }

next_line() {
    all_lines
    line=${lines%%"$nl"*}
    lines=${lines#"$line"}
    lines=${lines#"$nl"}
}

# The fields are encoded already.
answer() { answers="$answers=$mark $*$nl"; }

finish() {
    flush && { [ -z "$lasting" ] || durable "$file"; } ||
        { encode "$said"; answer failed "$code"; set -- 1; whole=; }
    [ -z "$whole" ] || tell_whole
    if [ "$by_hand" ]; then tell_plainly; else printf %s "$answers"; fi
    exit "${1:-0}"
}

# In words, for whoever runs it by hand.
tell_plainly() {
    IFS=$nl
    for line in $answers; do
        IFS=' '
        # shellcheck disable=SC2086
        set -- $line
        shift
        case $1 in
            held) decode "$3 on $4 (process $5) holds this host since $8, for $9: nothing was put back. If that process was killed, try again in a minute" ;;
            back) decode "$3: $4" ;;
            closed) plain="change set #$2 is put back" ;;
            kept) plain="change set #$2 stays open" ;;
            damaged) decode "$2 is damaged: nothing of it is put back by guessing" ;;
            failed) decode "$2" ;;
            *) continue ;;
        esac
        printf '%s\n' "$plain"
    done
}

fail() {
    encode "$1"
    answer failed "$code"
    finish 1
}

