# --- commands, in a subshell that has nothing of ours: a new shell for each would take twice as long

forget_us() {
    umask "$outer_mask"
    set +f
    unset IFS
    # shellcheck disable=SC2086
    unset -f \
        encode decode all_lines next_line answer finish tell_plainly fail find_place make_place durable drop_torn_tail append \
        sum_of slow_sum add_byte note flush insist replace beside alone take_turn latest_turn \
        turn_is_taken born_of is_running forget_us look act question see look_at why_not strip \
        look_until is_wanted numbers insert last_number load frame record read_frames find_key mark_key \
        get_key tell_whole is_whole load_or_refuse host_boot host_since_start read_lease write_lease is_alive is_watched \
        state_of_lease detached acquire take keep_script refuse_unfinished tell_open still_ours free_lease \
        watch holds_lease listen put_back undo_key hand_down heir_of find_later restore_sets \
        restore_set tell_outcome tell_untouched close_set arm deadman somebody_works confirm \
        hello show show_next show_some show_beside show_again show_one heard introduce change \
        open_set hold keep_intent keep_on_disk give_back make_rounds make_round each begin_make \
        start_make await_make end_make acted not_made may_write refused refused_with restore \
        is_gone leave restore_by_hand journal
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

# question THING READS TELLER: to be looked at by a command that tells of several things at once.
question() {
    [ "$3" != % ] || return 0
    [ "$teller" ] || teller=$3
    [ "$teller" != "$3" ] || questions="$questions$1 $2$nl"
}

# Sets `seen`: a line `THING TEXT` for each question that it could answer. To see one thing, or why
# one cannot be seen, we look.
see() {
    seen=
    case $questions in *"$nl"?*) ;; *) return ;; esac
    decode "$teller"
    seen=$nl$(
        forget_us
        eval "exec $plain" 2> /dev/null 9>&- << lines
$questions
lines
    )$nl
}

# look_at THING READS: each answer is used once, in the order of the questions.
look_at() {
    case $seen in
        *"$nl$1 "*) text=${seen#*"$nl$1 "} seen=$nl${text#*"$nl"} text=${text%%"$nl"*} ;;
        *) look "$2" ;;
    esac
}

why_not() { act "$1"; encode "${said:-it ended with code $ended}"; said=$code; }

strip() {
    bare=${1#"${1%%[![:space:]]*}"}
    bare=${bare%"${bare##*[![:space:]]}"}
}

# look_until READS KNOWN WANTED TENTHS [THING]: until the text is the one we know, or bare it is the
# wanted, or time is over. With neither to go by (%-): until it is no longer `before` and stands still.
look_until() {
    waited=0 last=
    while :; do
        look_at "${5:-}" "$1" || return 1
        if [ "$text" = "$2" ] || is_wanted "$3"; then return 0; fi
        if [ "$2$3" = %-%- ] && [ "$text" != "$before" ] && [ "$text" = "$last" ]; then return 0; fi
        if [ "$waited" -ge "$4" ]; then return 0; fi
        last=$text seen=
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

