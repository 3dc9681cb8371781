# programs: awk sort
# Sets $now, $many, $cores and $threads: the CPUs that a guest may run on, how many it has of its own,
# and which CPUs of the host would give each of these a core, or a hyper-thread of half as many cores.
# Empty where there are too few, or no core has two threads.
siblings=${siblings:-/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list}
chosen() {
    # shellcheck disable=SC2086
    sort -n -u $siblings | awk -v each="$1" -v many="$many" -v may="$2" '
        function whole(list, into,   parts, ends, n, i, cpu, count) {
            n = split(list, parts, ",")
            for (i = 1; i <= n; i++) {
                split(parts[i] "-" parts[i], ends, "-")
                for (cpu = ends[1]; cpu <= ends[2]; cpu++) into[++count] = cpu + 0
            }
            return count
        }
        BEGIN { for (n = whole(may, list); n > 0; n--) has[list[n]] = 1 }
        {
            found = 0
            for (i = 1; i <= whole($0, core); i++) if (core[i] in has) mine[++found] = core[i]
            if (found > 1) several = 1
            for (i = 1; i <= each && found >= each && count < many; i++) taken[mine[i]] = ++count
        }
        END {
            if (several && many > 1 && count == many)
                for (cpu = 0; cpu < 8192; cpu++) if (cpu in taken) { printf "%s%s", comma, cpu; comma = "," }
        }'
}
choose() { cores=$(chosen 1 "$1") threads=$(chosen 2 "$1"); }
