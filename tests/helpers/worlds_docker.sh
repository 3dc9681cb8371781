# programs: docker dockerd ip mount tar
set -e
ip link set lo up
for place in /run /var/lib /var/log; do mount -t tmpfs tmpfs "$place"; done
dockerd --data-root "$1/engine" --exec-root /run/docker -H unix:///run/docker.sock \
    -p /run/docker.pid --iptables=false --bridge=none --storage-driver vfs \
    --cgroup-parent "$2" >"$1/log" 2>&1 &
export DOCKER_HOST=unix:///run/docker.sock
n=0; until docker info >/dev/null 2>&1; do
    n=$((n + 1)); [ "$n" -lt 100 ] || { tail -n 3 "$1/log" >&2; exit 1; }; sleep 0.2; done
tar -C "$1/image" -c . | docker import - busy >/dev/null
docker run -d --name lab --network host --cpuset-cpus 0 --cpus 1 --memory 64m --memory-swap 64m \
    busy /bin/busybox sleep 1000 >/dev/null
docker run -d --name free --network none busy /bin/busybox sleep 1000 >/dev/null
