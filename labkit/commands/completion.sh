# Completes the words of labkit in bash; its words stand in a line for each verb, before this.
# shellcheck shell=bash disable=SC2207,SC3030,SC3043,SC3044,SC3054

_labkit() {
    local word="${COMP_WORDS[COMP_CWORD]}" verb="${COMP_WORDS[1]}"
    [ "$COMP_CWORD" -gt 1 ] || verb=labkit
    COMPREPLY=($(compgen -W "${_labkit_words[$verb]}" -- "$word"))
    [ "${#COMPREPLY[@]}" -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))
}
complete -o filenames -F _labkit labkit
