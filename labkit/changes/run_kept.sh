for home in "${LABKIT_CHANGES:-/var/lib/labkit/changes}" \
    "${LABKIT_CHANGES:-${HOME:-}/.local/state/labkit/changes}"; do
    [ ! -r "$home/$1" ] || break
done
[ -r "$home/$1" ] || { echo "=$4 unkept"; exit; }
keep=$1 lines=$2 script=kept; shift 2
# shellcheck disable=SC1090
. "$home/$keep"
