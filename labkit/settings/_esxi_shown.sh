shift
awk -v keys=" $* " '{ key = $0; sub(/ *=.*/, "", key); sub(/^ */, "", key) }
    index(tolower(keys), " " tolower(key) " ")' "$vmx" || exit
[ ! -e "$vmx.labkit-ran" ] || echo stopped
