# programs: grep
grep -aoHs "$1" /proc/[0-9]*/cmdline | while IFS=/: read -r _ _ pid _ mark; do
    while read -r name cpus; do
        [ "$name" != Cpus_allowed_list: ] || echo "${mark##*-} $cpus"
    done < "/proc/$pid/status"
done 2>/dev/null | sort -u
echo "owned $owned"
host_cpus
