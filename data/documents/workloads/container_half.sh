# $1: native or container. The same script either way: on this host, or by runc, in a root of its
# own with all CPUs and all memory of the host. That root is made once, and lies in a cache.
set -eu
at=${HOME:-/root}/.cache/labkit-felter
if [ ! -e "$at/ready" ]; then
    mkdir -p "$at/files" "$at/root/files" "$at/root/proc" "$at/root/dev" "$at/root/tmp"
    seq 900000 | head -c 6000000 >"$at/files/text"
    dd if=/dev/zero of="$at/files/disk" bs=1M count=64 2>/dev/null
    for name in sh date xz fio sysbench; do
        path=$(command -v "$name")
        for file in "$path" $(ldd "$path" | grep -o '/[^ )]*'); do
            mkdir -p "$at/root${file%/*}" && cp -L "$file" "$at/root$file"
        done
    done
    touch "$at/ready"
fi
cat >"$at/files/all.sh" <<'TESTS'
cd "$1"
echo "begun $(date +%s.%N)"
xz -4 -T2 --block-size=1500000 -c text >/dev/null
echo "ended $(date +%s.%N)"
sysbench cpu --threads=2 --time=2 run
sysbench memory --threads=2 --memory-block-size=16M --memory-total-size=1T --time=2 run
fio --name=reads --filename=disk --size=64M --rw=randread --bs=4k --ioengine=psync --numjobs=2 \
    --thread --group_reporting --time_based --runtime=2
TESTS
[ "$1" = container ] || exec sh "$at/files/all.sh" "$at/files"
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
cd "$box"
runc spec
mount="{\"destination\": \"/files\", \"type\": \"none\", \"source\": \"$at/files\", \"options\": [\"bind\"]}"
sed -i "s#\"path\": \"rootfs\"#\"path\": \"$at/root\"#; s#\"terminal\": true#\"terminal\": false#
    s#\"mounts\": \[#&$mount,#; s#^\t\t\t\"sh\"#\t\t\t\"sh\", \"/files/all.sh\", \"/files\"#" config.json
runc run "labkit-$$"
