host_cpus() {
    while read -r name cpus; do
        [ "$name" != Cpus_allowed_list: ] || echo "$cpus"
    done < /proc/1/status
}
