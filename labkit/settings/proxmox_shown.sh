# programs: qm
said=$(qm config "$1" ${4:+"$4"}) || exit
line=$(printf '%s\n' "$said" | sed -n "s/^$2: //p")
[ -n "$line" ] || { echo "guest $1 has no $2" >&2; exit 1; }
found=$(printf %s "$line" | tr , '\n' | sed -n "s/^$3=//p")
echo "${found:-default}"
