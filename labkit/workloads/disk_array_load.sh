# programs: fio
# The load on a volume of an array: segments until it is steady, then what counts.
#   disk_array_load SEGMENT_SECONDS MOST_SEGMENTS SECONDS DEPTH READ_PERCENT DISK...
set -eu
export PATH="$PATH:/usr/sbin:/sbin"
segment=$1 most=$2 seconds=$3 depth=$4 reads=$5; shift 5
load() {
    fio --name=iometer --filename=/dev/mapper/labkit-volume --ioengine=libaio --direct=1 --thread \
        --rw=randrw --rwmixread="$reads" --bs=4k --iodepth="$depth" --norandommap --randrepeat=0 \
        --refill_buffers --buffer_compress_percentage=0 --time_based "$@"
}
counted() {
    echo "=== disks $1 ==="; shift
    for disk; do name=$(readlink -f "$disk"); echo "$disk $(cat "/sys/class/block/${name##*/}/stat")"; done
}
echo "=== warm-up ==="
# Three in a row within a tenth of their mean are steady.
one='' two='' steady=no n=0
while [ "$n" -lt "$most" ] && [ "$steady" = no ]; do
    three=$(load --runtime="$segment" --minimal | awk -F';' '{ printf "%d", $8 + $49 }')
    echo "$three"
    steady=$(awk -v a="${one:-0}" -v b="${two:-0}" -v c="$three" 'BEGIN {
        m = (a + b + c) / 3; t = m / 10
        print a && b && (a-m)^2 <= t*t && (b-m)^2 <= t*t && (c-m)^2 <= t*t ? "yes" : "no" }')
    one=$two two=$three n=$((n + 1))
done
counted before "$@"
echo "=== fio ==="
load --runtime="$seconds" --output-format=json+
counted after "$@"
echo "=== array ==="
echo "steady $steady"
echo "degraded $(cat /sys/block/md94/md/degraded)"
for member in /sys/block/md94/md/dev-*; do
    name=$(cat "/sys/block/${member##*/dev-}/dm/name")
    echo "${name#labkit-} $(cat "$member/state")"
done
