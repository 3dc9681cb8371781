while read -r _; do
    said=$(eval "$1" 2>/dev/null)
    printf '%s\n%s\n' "$((${#said} + 1))" "$said"
done
