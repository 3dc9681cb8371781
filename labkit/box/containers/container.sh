#!/bin/sh
# programs: busybox docker flock ip iptables mount nsenter setsid tar
# container: the containers of this host, described by key=value lines.
#
#   container [@NAME] VERB...    one of several; without a name, the first by name
#   container list               their names
#   container get [KEY...]       values in force: the running one's, else those for the next start
#   container set KEY=VALUE...   network=bridge|host cpus=0-1,3 memory=...M or none; at the next start
#   container start              returns when one can log in
#   container stop               what it wrote is gone
#   container state              running or stopped
#   container pid                its first process, as this host counts
what=container
places=/run/labkit/containers
state=/run/labkit/engine
bridge=docker0
gateway=172.30.0.1
seconds=120
export DOCKER_HOST=unix:///run/docker.sock

fail() {
    echo "container: $*" >&2
    exit 1
}

wire() { sed -n "s/^$1=//p" "$home/wires"; }

value() { sed -n "s/^$1=//p" "$home/running"; }

engine() { wire engine; }

state() { if [ -n "$(pid)" ]; then echo running; else echo stopped; fi; }

get() {
    file=$home/description
    [ "$(state)" = stopped ] || file=$home/running
    [ $# -gt 0 ] || exec cat "$file"
    for key in "$@"; do
        grep -q "^$key=" "$file" || fail "no such key: $key; known: $(sed 's/=.*//' "$file" | tr '\n' ' ')"
        sed -n "s/^$key=//p" "$file"
    done
}

set_values() {
    for pair in "$@"; do
        case $pair in
            network=bridge | network=host | memory=none | memory=[1-9]*M) ;;
            cpus=[0-9]*) taskset -c "${pair#*=}" true || fail "cannot have $pair" ;;
            *) fail "cannot mean $pair; known: network=bridge|host cpus=0-1,3 memory=...M or none" ;;
        esac
    done
    for pair in "$@"; do
        sed "s/^${pair%%=*}=.*/$pair/" "$home/description" > "$home/description.new"
        mv -f "$home/description.new" "$home/description"
    done
}

# --- what every engine needs --------------------------------------------------------------------

# The control groups of this host are the root of what it sees. Version 2 gives limits to groups
# below one that has no processes of its own.
groups() {
    [ -z "$(ls /sys/fs/cgroup)" ] || return 0
    # A guest, whose kernel has no group but the first one before they are asked for.
    if [ -z "$(cat /proc/self/cgroup)" ]; then
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
        return
    fi
    if [ "$(cat /proc/self/cgroup)" = "0::/" ]; then
        mount -t cgroup2 cgroup2 /sys/fs/cgroup || return
        mkdir -p /sys/fs/cgroup/host
        # Those that are begun meanwhile have to follow.
        tries=0
        until [ -z "$(cat /sys/fs/cgroup/cgroup.procs)" ] || [ "$tries" -ge 100 ]; do
            for pid in $(cat /sys/fs/cgroup/cgroup.procs); do
                echo "$pid" > /sys/fs/cgroup/host/cgroup.procs
            done 2> /dev/null
            tries=$((tries + 1))
        done
        for kind in $(cat /sys/fs/cgroup/cgroup.controllers); do
            echo "+$kind" > /sys/fs/cgroup/cgroup.subtree_control
        done
        return
    fi
    mount -t tmpfs -o mode=0755 tmpfs /sys/fs/cgroup || return
    while IFS=: read -r _ kind _; do
        [ -n "$kind" ] || continue
        mkdir "/sys/fs/cgroup/${kind#name=}"
        mount -t cgroup -o "$kind" cgroup "/sys/fs/cgroup/${kind#name=}" || return
    done < /proc/self/cgroup
}

# The programs are this host's own; only what a container may change is its own.
skeleton() {
    for folder in usr etc proc sys dev run/sshd run/labkit/scratch given tmp root var/tmp var/log var/lib/labkit; do
        mkdir -p "$1/$folder"
    done
    chmod 1777 "$1/tmp" "$1/var/tmp"
    chmod 700 "$1/root"
    for place in bin sbin lib lib32 lib64 libx32; do
        if [ -L "/$place" ]; then
            ln -s "$(readlink "/$place")" "$1/$place"
        elif [ -d "/$place" ]; then
            mkdir "$1/$place"
        fi
    done
}

# Pairs of what is here and where it is in the container, read-only both.
shared() {
    for place in /usr /etc /bin /sbin /lib /lib32 /lib64 /libx32; do
        [ -L "$place" ] || [ ! -d "$place" ] || echo "$place $place"
    done
    for file in "$home"/run/labkit/etc/*; do
        [ ! -e "/etc/${file##*/}" ] || echo "$file /etc/${file##*/}"
    done
}

# --- Docker: an engine of this host's own ---------------------------------------------------------

docker_engine() {
    docker info > /dev/null 2>&1 && return
    [ ! -d /etc/docker ] || mount -t tmpfs tmpfs /etc/docker
    setsid -f dockerd --data-root "$state/data" --exec-root "$state/run" -H "$DOCKER_HOST" \
        -p "$state/pid" --bip "$gateway/24" > "$state/log" 2>&1 < /dev/null 9>&- 8>&-
    until docker info > /dev/null 2>&1; do
        late || { tail -n 3 "$state/log" >&2; fail "Docker's engine did not start in this host"; }
    done
    mkdir "$state/root"
    skeleton "$state/root"
    tar -C "$state/root" -c . | docker import - labkit > /dev/null || fail "Docker takes no image"
}

docker_make() {
    set -- docker run -d --name "$name" --hostname "$(wire hostname)" --network "$(value network)"
    set -- "$@" --cpuset-cpus "$(value cpus)" --cgroup-parent "/containers/$name"
    [ "$(value memory)" = none ] || set -- "$@" --memory "$(value memory)" --memory-swap "$(value memory)"
    while read -r here there; do set -- "$@" -v "$here:$there:ro"; done <<SHARED
$(shared)
SHARED
    [ -z "$(wire scratch)" ] || set -- "$@" -v "$(wire scratch):$(wire scratch)"
    "$@" -v "$home/run/labkit:/given" labkit /bin/sh /given/init > /dev/null || fail "Docker did not run it"
}

docker_pid() { docker inspect -f '{{if .State.Running}}{{.State.Pid}}{{end}}' "$name" 2> /dev/null; }

docker_remove() { docker rm -f "$name" > /dev/null 2>&1; }

# --- crun or runc: Docker's networking, made here -------------------------------------------------

# What a guest of User-Mode Linux needs of the modules of its kernel, which are where Debian has them.
modules() {
    own=/usr/lib/uml/modules/$(uname -r)
    [ -d "$own" ] || return 0
    for module in bridge veth nft_chain_nat nft_compat xt_MASQUERADE xt_conntrack; do
        needed=$(sed -n "s,^\\(.*/$module\\.ko\\): *,\\1 ,p" "$own/modules.dep")
        all="$needed $all"
    done
    # Whoever is needed stands behind who needs it.
    for file in $all; do last_first="$file $last_first"; done
    for file in $last_first; do busybox insmod "$own/$file" 2> /dev/null; done
    return 0
}

crun_engine() {
    modules
    [ ! -d "/sys/class/net/$bridge" ] || return 0
    echo 1 > /proc/sys/net/ipv4/ip_forward
    ip link add "$bridge" up type bridge
    ip addr add "$gateway/24" dev "$bridge"
    iptables -t nat -A POSTROUTING -s "$gateway/24" ! -o "$bridge" -j MASQUERADE 2> /dev/null
    iptables -A FORWARD -o "$bridge" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT 2> /dev/null
    iptables -A FORWARD -i "$bridge" -j ACCEPT 2> /dev/null
    iptables -P FORWARD DROP 2> /dev/null
    return 0
}

crun_make() {
    bundle=$state/bundles/$name
    mkdir -p "$bundle/root"
    skeleton "$bundle/root"
    crun_config > "$bundle/config.json"
    oci create --bundle "$bundle" --pid-file "$bundle/pid" "$name" > "$state/log" 2>&1 < /dev/null 9>&- 8>&- ||
        { tail -n 3 "$state/log" >&2; fail "$(engine) did not make it"; }
    [ "$(value network)" = host ] || crun_bridge "$(cat "$bundle/pid")"
    oci start "$name" || fail "$(engine) did not start it"
}

crun_bridge() {
    seat=$(wire seat)
    ip link add "veth$seat" master "$bridge" up type veth peer name eth0 netns "$1" || fail "no link"
    nsenter -t "$1" -n ip -batch - <<LINKS
link set lo up
addr add ${gateway%.*}.$seat/24 dev eth0
link set eth0 up
route add default via $gateway
LINKS
}

oci() { "$(engine)" --root "$state/oci" "$@"; }

crun_pid() {
    first=$(cat "$state/bundles/$name/pid" 2> /dev/null) || return
    [ ! -d "/proc/$first" ] || echo "$first"
}

crun_remove() {
    oci delete -f "$name" 2> /dev/null
    ip link delete "veth$(wire seat)" 2> /dev/null
    rm -rf "$state/bundles/$name"
}

mounts() {
    shared | while read -r here there; do
        printf '{"destination":"%s","source":"%s","type":"bind","options":["rbind","ro"]},' "$there" "$here"
    done
}

scratch() {
    [ -z "$(wire scratch)" ] ||
        printf '{"destination":"%s","source":"%s","type":"bind","options":["rbind","rw"]},' "$(wire scratch)" "$(wire scratch)"
}

# What /sys shows of links is the network of whoever mounted it.
system() {
    kind=sysfs how=
    [ "$(value network)" = bridge ] || kind=none how='"rbind",'
    printf '{"destination":"/sys","type":"%s","source":"/sys","options":[%s"nosuid","noexec","nodev","ro"]},' "$kind" "$how"
}

spaces() {
    for kind in pid ipc uts mount $([ "$(value network)" = host ] || echo network); do
        printf '%s{"type":"%s"}' "$between" "$kind"
        between=,
    done
}

# A kernel of one CPU has no group for CPUs.
limits() {
    between=
    if grep -q '^cpuset' /proc/cgroups; then
        printf '"cpu":{"cpus":"%s"}' "$(value cpus)"
        between=,
    fi
    [ "$(value memory)" != none ] || return 0
    bytes=$(($(value memory | tr -d M) * 1048576))
    printf '%s"memory":{"limit":%s,"swap":%s}' "$between" "$bytes" "$bytes"
}

crun_config() {
    between=
    # What Docker lets a container do.
    may='["CAP_CHOWN","CAP_DAC_OVERRIDE","CAP_FSETID","CAP_FOWNER","CAP_MKNOD","CAP_NET_RAW","CAP_SETGID","CAP_SETUID","CAP_SETFCAP","CAP_SETPCAP","CAP_NET_BIND_SERVICE","CAP_SYS_CHROOT","CAP_KILL","CAP_AUDIT_WRITE"]'
    cat <<CONFIG
{"ociVersion":"1.0.2",
 "process":{"cwd":"/","args":["/bin/sh","/given/init"],"env":["PATH=$PATH"],"user":{"uid":0,"gid":0},
  "capabilities":{"bounding":$may,"effective":$may,"permitted":$may}},
 "root":{"path":"root"},"hostname":"$(wire hostname)",
 "mounts":[{"destination":"/proc","type":"proc","source":"proc"},
  {"destination":"/dev","type":"tmpfs","source":"tmpfs","options":["nosuid","mode=755"]},
  {"destination":"/dev/pts","type":"devpts","source":"devpts","options":["newinstance","ptmxmode=0666","mode=0620"]},
  {"destination":"/dev/shm","type":"tmpfs","source":"shm","options":["nosuid","nodev","mode=1777"]},
  $(system)
  $(mounts)
  $(scratch)
  {"destination":"/given","source":"$home/run/labkit","type":"bind","options":["rbind","rw"]}],
 "linux":{"cgroupsPath":"/containers/$name","namespaces":[$(spaces)],
  "resources":{$(limits)}}}
CONFIG
}

# --- its addresses --------------------------------------------------------------------------------

# SSH has a link of its own, past the engine's. What is measured takes the engine's: the container
# has its address of the data network behind the bridge, and this host answers for it.
join_bridge() {
    data=$(wire data) control=$(wire control) link=$(wire link) first=$1
    [ -z "$(wire control_link)" ] || { join_guest_bridge; return; }
    ip link add "$(wire near)" master "$(wire switch)" up type veth \
        peer name control0 address "$(wire mac0)" netns "$first" || fail "no link for SSH"
    nsenter -t "$first" -n sh -c 'for knob in /proc/sys/net/ipv6/conf/*/disable_ipv6; do
        [ ! -e "$knob" ] || echo 1 > "$knob"; done'
    nsenter -t "$first" -n ip -batch - <<LINKS || fail "cannot give it its addresses"
addr add $control/24 dev control0
link set control0 up
addr add $data/32 dev eth0
route add ${data%.*}.0/24 via $gateway dev eth0 src $data
LINKS
    echo 1 > /proc/sys/net/ipv4/ip_forward
    answer_for "$data" "$link"
}

answer_for() {
    ip route replace "$1/32" dev "$bridge"
    echo 0 > "/proc/sys/net/ipv4/neigh/$2/proxy_delay"
    ip neigh replace proxy "$1" dev "$2"
    iptables -I FORWARD -d "$1" -j ACCEPT 2> /dev/null
}

# In a guest SSH takes the same way: the guest answers for both addresses.
join_guest_bridge() {
    nsenter -t "$first" -n ip -batch - <<LINKS || fail "cannot give it its addresses"
addr add $control/32 dev eth0
addr add $data/32 dev eth0
route add ${data%.*}.0/24 via $gateway dev eth0 src $data
route add ${control%.*}.0/24 via $gateway dev eth0 src $control
LINKS
    echo 1 > /proc/sys/net/ipv4/ip_forward
    answer_for "$data" "$link"
    answer_for "$control" "$(wire control_link)"
}

# Whoever knew its hardware address need not learn another.
join_host() {
    [ -n "$(wire control_link)" ] || ip link set "$(wire switch)" address "$(wire mac0)"
    ip addr add "$(wire control)/32" dev "$(own_link)"
    ip addr add "$(wire data)/24" dev "$(wire link)"
}

own_link() { if [ -n "$(wire control_link)" ]; then wire control_link; else wire switch; fi; }

leave() {
    data=$(wire data) control=$(wire control) link=$(wire link)
    ip link delete "$(wire near)"
    for address in "$data" "$control"; do
        ip route delete "$address/32" dev "$bridge"
        ip neigh delete proxy "$address" dev "$link"
        ip neigh delete proxy "$address" dev "$(wire control_link)"
        iptables -D FORWARD -d "$address" -j ACCEPT
    done
    ip link set "$(wire switch)" address "$(wire mac3)"
    ip addr delete "$control/32" dev "$(own_link)"
    ip addr delete "$data/24" dev "$link"
} > /dev/null 2>&1

# --- verbs ----------------------------------------------------------------------------------------

late() {
    [ "$(date +%s)" -lt "$until" ] || return 1
    sleep 0.02
}

kind() { if [ "$(engine)" = docker ]; then echo docker; else echo crun; fi; }

pid() { "$(kind)_pid"; }

start() {
    [ "$(state)" = stopped ] || return 0
    # A guest starts programs slowly.
    [ -z "$(wire control_link)" ] || seconds=170
    until=$(($(date +%s) + seconds))
    exec 8> /run/labkit/engine.lock
    flock 8
    mkdir -p "$state"
    groups || fail "this host sees no control groups"
    "$(kind)_engine"
    flock -u 8
    stop
    cp "$home/description" "$home/running"
    rm -f "$home/run/labkit/log" "$home/run/labkit/go"
    mkfifo "$home/run/labkit/go"
    "$(kind)_make"
    first=$(pid)
    [ -n "$first" ] || fail "it ended at once"
    "join_$(value network)" "$first"
    # Opened for both, so that opening waits for nobody.
    exec 7<> "$home/run/labkit/go"
    echo go >&7
    until grep -q 'Server listening on ' "$home/run/labkit/log" 2> /dev/null; do
        if [ -z "$(pid)" ] || ! late; then
            tail -n 3 "$home/run/labkit/log" >&2
            fail "its sshd did not start"
        fi
    done
}

stop() {
    "$(kind)_remove"
    leave
    rm -f "$home/running"
}

# include one_of.sh
name=${home##*/}
case $verb in
    list) ls "$places" ;;
    get) get "$@" ;;
    set) alone set_values "$@" ;;
    start | stop) alone "$verb" ;;
    state | pid) "$verb" ;;
    *) sed -n '2,/^what/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
