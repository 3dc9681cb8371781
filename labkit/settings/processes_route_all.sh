pairs=$(routed "$1") || exit
for pair in $pairs; do
    printf %s "$2" | tee "/proc/irq/${pair%%=*}/smp_affinity_list" >/dev/null || exit
done
