# programs: redis-cli
awk -v n="$3" -v size="$4" 'BEGIN {
    while (length(value) < size) value = value "x"
    for (i = 0; i < n; i++)
        printf "*3\r\n$3\r\nSET\r\n$16\r\nkey:%012d\r\n$%d\r\n%s\r\n", i, size, value
}' | timeout "$5" redis-cli -h "$1" -p "$2" --pipe >/dev/null 2>&1
exit 0
