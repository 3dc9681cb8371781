cpus=$(host_cpus | tr , '\n' | while IFS=- read -r a b; do seq "$a" "${b:-$a}"; done)
[ "$2" = all ] || cpus=$(echo "$cpus" | sed '$d')
guest "@$1" set "cpus=$(echo "$cpus" | paste -s -d , -)" policy=other
