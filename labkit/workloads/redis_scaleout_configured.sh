# A balancer's settings, in a file that has no name any more when the balancer reads it.
#   configured SETTINGS COMMAND [WORD...]
file=$(mktemp) || exit
printf '%s' "$1" > "$file"; exec 3< "$file"; rm -f "$file"; shift
exec "$@" /proc/self/fd/3
