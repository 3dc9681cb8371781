# programs: qm
said=$(qm config "$1") || exit
line=$(printf '%s\n' "$said" | sed -n "s/^$2: //p")
[ -n "$line" ] || { echo "guest $1 has no $2" >&2; exit 1; }
line=$(printf %s "$line" | tr , '\n' | sed "/^$3=/d" | tr '\n' ,)
[ "$4" = default ] || line="${line%,},$3=$4"
qm set "$1" "--$2" "${line%,}" >&2 || exit
# A guest that runs takes it at its next start.
case $(qm status "$1") in *running*) qm reboot "$1" >&2 ;; esac
