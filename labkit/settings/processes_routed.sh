routed() {
    found=$(sed -n 's/^ *\([0-9]*\):.*[[:space:]]\([^[:space:]]*\)$/\1 \2/p' /proc/interrupts |
        while read -r n name; do case $name in ("$1"*) echo "$n" ;; esac; done)
    [ -n "$found" ] || { echo "no interrupt has a name that begins with $1" >&2; exit 1; }
    for n in $found; do echo "$n=$(cat "/proc/irq/$n/smp_affinity_list")" || exit; done
}
