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
    case $outcome in lacking | failed)
        kept=yes
        [ "$forgetting" != yes ] || note given-up "$thing" "$orig" "$text"
        ;;
    esac
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

