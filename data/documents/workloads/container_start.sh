# $1: crun, runc, runsc, podman or docker; $2: how many containers. The caller made namespaces for
# it, so whatever lies in /run and whatever runs goes with this script.
set -eu
mount -t tmpfs none /run
# crun refuses control groups of both versions at once.
umount /sys/fs/cgroup/unified 2>/dev/null || true
mkdir -p /run/bundle/rootfs/dev /run/bundle/rootfs/proc /run/bundle/rootfs/sys
cd /run/bundle
for file in $(type -P true) $(ldd "$(type -P true)" | grep -o '/[^ )]*'); do
    mkdir -p "rootfs${file%/*}"
    cp -L "$file" "rootfs$file"
done
program=$(type -P true)

case $1 in
crun | runc) start() { "$1" run "labkit-$2"; } ;;
runsc) start() { runsc --platform=ptrace --network=none --ignore-cgroups run "labkit-$2"; } ;;
podman)
    start() {
        podman --root /run/podman --runroot /run/podman-run --runtime crun --events-backend none \
            run --rm --network none --log-driver none --rootfs /run/bundle/rootfs "$program"
    } ;;
docker)
    export DOCKER_HOST=unix:///run/docker.sock
    dockerd --data-root /run/data --exec-root /run/exec --pidfile /run/pid -H "$DOCKER_HOST" \
        --bridge none --iptables=false >/run/log 2>&1 &
    for _ in {1..300}; do
        docker info >/dev/null 2>&1 && break
        kill -0 $! || { tail -n 3 /run/log >&2; exit 1; }
        sleep 0.1
    done
    tar -C rootfs -c . | docker import - labkit >/dev/null
    start() { docker run --rm --network none labkit "$program"; } ;;
esac
case $1 in crun | runc | runsc)
    runc spec
    sed -i "s#\"terminal\": true#\"terminal\": false#; s#^\t\t\t\"sh\"#\t\t\t\"$program\"#" config.json
esac

start "$1" 0 >&2 # the first reads the programs from the disk
for ((n = 1; n <= $2; n++)); do
    begun=${EPOCHREALTIME/[.,]/}
    start "$1" "$n" >&2
    echo "took $((${EPOCHREALTIME/[.,]/} - begun))"
done
