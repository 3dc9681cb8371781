# programs: flock
# Part of the commands `guest` and `container`: which one is meant, and one change at a time.
alone() {
    exec 9> "$home/lock"
    flock 9
    "$@"
}

case ${1:-} in
    @*)
        home=$places/${1#@}
        [ -e "$home/wires" ] || fail "no such $what: ${1#@}; known: $(ls "$places")"
        shift
        ;;
    *) home=$places/$(ls "$places" | head -n 1) ;;
esac
verb=${1:-}
[ $# -eq 0 ] || shift
