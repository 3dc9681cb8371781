#!/bin/bash
# In the image of binder/, as its user: JupyterLab comes up, and every notebook runs to its end.
#
# Prints seconds from the container's start to JupyterLab's first answer, and on to the last cell of
# a study with its charts; then each notebook's seconds, and the most memory that all of it took.
# programs: python3
set -euo pipefail
begun=$(date +%s)
since() { echo $(($(date +%s) - begun)); }
ran() { papermill --no-progress-bar --log-level ERROR "$1" "/tmp/${1##*/}"; }

# As the kernel's older groups have it, or its newer ones.
first() { { cut -d ' ' -f 1 "$@" 2>/dev/null || true; } | head -n 1; }

quota=$(first /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max)
echo "user $(id --user), $(nproc) CPUs seen, ${quota:-no} microseconds of 100000"
jupyter lab --no-browser --ip 127.0.0.1 --port 8888 --IdentityProvider.token= >/tmp/lab.log 2>&1 &
lab=$!
trap 'kill $lab' EXIT
python3 - <<'END'
import time, urllib.request
until = time.monotonic() + 120
while True:
    try:
        urllib.request.urlopen("http://127.0.0.1:8888/lab").read()
        break
    except OSError:
        if time.monotonic() > until:
            raise
        time.sleep(0.2)
END
echo "JupyterLab answered after $(since) s"
ran notebooks/01-lat-ping.ipynb
echo "a study's charts were there after $(since) s"
for notebook in notebooks/*.ipynb; do
    before=$(since)
    ran "$notebook"
    echo "ran $notebook in $(($(since) - before)) s"
done
peak=$(first /sys/fs/cgroup/memory/memory.max_usage_in_bytes /sys/fs/cgroup/memory.peak)
echo "the most memory: $((peak >> 20)) MiB"
