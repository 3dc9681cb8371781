put() { printf %s "$1" | tee "$2" >/dev/null; }
if [ -e "$1/cpu.max" ]; then put "$3 $4" "$1/cpu.max"
else put -1 "$2/cpu.cfs_quota_us" && put "$4" "$2/cpu.cfs_period_us" &&
    { [ "$3" = max ] || put "$3" "$2/cpu.cfs_quota_us"; }; fi
