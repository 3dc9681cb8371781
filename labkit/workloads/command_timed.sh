# programs: bash
# command_timed.sh TIMES PREPARE QUIET COMMAND [WORD...]: run it so many times, and print how long
# each took. Bash reads the clock by itself: a program that did so would be timed too.
times=$1 prepare=$2 quiet=$3
shift 3
if [ -z "${EPOCHREALTIME:-}" ]; then
    echo "bash 5 or newer is needed to time commands" >&2
    exit 1
fi
n=0
while [ "$n" -lt "$times" ]; do
    n=$((n + 1))
    if [ -n "$prepare" ] && ! bash -c "$prepare" > /dev/null < /dev/null; then
        echo "it was not prepared: $prepare" >&2
        exit 1
    fi
    begun=$EPOCHREALTIME
    if [ -n "$quiet" ]; then
        "$@" > /dev/null < /dev/null
    else
        "$@" 2>&1 < /dev/null
    fi
    code=$?
    ended=$EPOCHREALTIME
    [ "$code" -eq 0 ] || exit "$code"
    # Six digits behind a point, or what a locale has in its place.
    begun=${begun%[.,]*}${begun#*[.,]} ended=${ended%[.,]*}${ended#*[.,]}
    printf '\n=== labkit: took %d us\n' "$((ended - begun))"
done
