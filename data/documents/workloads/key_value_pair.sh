# $1: host, bridge, nat or vxlan; $2: requests, $3: clients. All of it is in namespaces of its own:
# two hosts on one wire, a container on each. It goes with the last process.
set -eu
mount -t tmpfs none /run
for n in 1 2; do
    ip netns add "host$n"
    ip -n "host$n" link set lo up
done
ip link add wire1 netns host1 type veth peer name wire2 netns host2
for n in 1 2; do
    ip -n "host$n" link set "wire$n" up
    ip -n "host$n" address add "192.0.2.$n/24" dev "wire$n"
done

container() { # N ADDRESS: on a bridge of host N
    ip netns add "box$1"
    ip -n "host$1" link add bridge type bridge forward_delay 0
    ip link add port netns "host$1" type veth peer name eth0 netns "box$1"
    ip -n "host$1" link set port master bridge up
    ip -n "host$1" link set bridge up
    ip -n "box$1" link set lo up
    ip -n "box$1" link set eth0 up
    ip -n "box$1" address add "$2" dev eth0
}

from=host1 to=host2 address=192.0.2.2
[ "$1" = host ] || from=box1 to=box2
case $1 in
bridge)
    for n in 1 2; do
        container "$n" "203.0.113.$n/24"
        ip -n "host$n" link set "wire$n" master bridge
    done
    address=203.0.113.2 ;;
nat)
    for n in 1 2; do
        container "$n" "198.51.100.2/24"
        ip -n "host$n" address add 198.51.100.1/24 dev bridge
        ip -n "box$n" route add default via 198.51.100.1
        ip netns exec "host$n" sysctl -qw net.ipv4.ip_forward=1
        ip netns exec "host$n" nft "table ip n {
            chain in { type nat hook prerouting priority -100;
                iifname wire$n tcp dport 6379 dnat to 198.51.100.2; }
            chain out { type nat hook postrouting priority 100; oifname wire$n masquerade; }
        }"
    done ;;
vxlan)
    for n in 1 2; do
        container "$n" "203.0.113.$n/24"
        ip -n "box$n" link set eth0 mtu 1450
        ip -n "host$n" link add overlay type vxlan id 7 dstport 4789 \
            local "192.0.2.$n" remote "192.0.2.$((3 - n))"
        ip -n "host$n" link set overlay master bridge up
    done
    address=203.0.113.2 ;;
esac

ip netns exec "$to" redis-server --save '' --appendonly no --protected-mode no >/dev/null &
until ip netns exec "$from" redis-cli -h "$address" ping >/dev/null 2>&1; do sleep 0.05; done
bench() { ip netns exec "$from" redis-benchmark -h "$address" -t get --csv "$@"; }
busy() { awk '/^cpu / { print "busy", $2 + $3 + $4 + $7 + $8 }' /proc/stat; }
bench -n "$2" -c "$3" >/dev/null
for time in 1 2 3 4 5; do
    echo "asked $2"
    busy
    echo "many $(bench -n "$2" -c "$3" | tail -1)"
    busy
    echo "one $(bench -n "$(($2 / 3))" -c 1 | tail -1)"
done
