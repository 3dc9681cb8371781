# --- looks: what a host shows of some things

# Lines `show THING PROBE LIVE READS TELLER`; a line `beat TOKEN` says that the owner is still there.
# What no command tells together is looked at by some at the same time, as each look is mostly a wait
# for programs to start. What one has to say comes whole only while it is short (PIPE_BUF), and what
# fails may have failed beside the others: such are looked at again, one after another.
show() {
    those=
    all_lines
    IFS=$nl
    for line in $lines; do
        IFS=' '
        # shellcheck disable=SC2086
        set -- $line
        if [ "$1" = beat ]; then
            heard "$2"
            continue
        fi
        those="$those$line$nl"
        [ "$3$4" != %% ] || question "$2" "$5" "${6:-%}"
    done
    IFS=' '
    see
    some='' several=''
    each show_next
    show_some
}

show_next() {
    case $seen in
        *"$nl$2 "*) look_at "$2" && answer state "$2" is "$text" % ;;
        *)
            some="$some$*$nl" several="${several}1"
            [ "$several" != 1111 ] || show_some
            ;;
    esac
}

show_some() {
    those=$some some='' several=''
    [ "$those" ] || return 0
    if [ "$those" = "${those%%"$nl"*}$nl" ]; then
        each show_one
        return
    fi
    before=$answers answers='' again=' '
    said=$(each show_beside; wait)
    IFS=$nl
    for line in $said; do
        IFS=' '
        case $line in
            "=$mark "*) before=$before$line$nl ;;
            "again "*) again="$again${line#again } " ;;
        esac
    done
    IFS=' '
    answers=$before
    each show_again
}

show_beside() {
    {
        show_one "$@"
        case $answers in "=$mark state $2 is "*) ;; *) answers= ;; esac
        [ "$4" = % ] || [ "$live" != % ] || answers=
        if [ "$answers" ] && [ "${#answers}" -lt 4000 ]; then printf %s "$answers"; else printf '%s\n' "again $2"; fi
    } &
}

show_again() { case $again in *" $2 "*) show_one "$@" ;; esac; }

show_one() {
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
}
