# programs: esxcli
sizes() {
    said=$(esxcli network ip interface list) || exit
    own=$(printf '%s\n' "$said" | awk -v want="$1" '
        $1 == "Name:" { name = $2 } $1 == "Portset:" { below = $2 }
        $1 == "MTU:" && name == want { print $2, below }')
    [ -n "$own" ] || { echo "no interface $1" >&2; exit 1; }
    said=$(esxcli network vswitch standard list -v "${own#* }") || exit
    printf '%s\n' "$said" | awk -v own="$1 $own" '$1 == "MTU:" { print own, $2 }'
}
