#!/bin/sh
# Waits in the guest for NICs that are plugged in. Each takes name, address and size of the one for
# test traffic, which is then out of use. To listen costs less than to be started for each event.
read -r peer < /run/labkit/peer
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec > /dev/console 2>&1
lines=$(while read -r line; do
    case $line in
        "addr add "*vec1*) echo "addr replace ${line#addr add }" ;;
        *vec1*) echo "$line" ;;
    esac
done < /run/labkit/links)

# in_place_of OLD NEW: what vec1 is now is called OLD, and NEW becomes vec1
in_place_of() {
    ip -batch - << batch
link set vec1 down
link set vec1 name $1
link set $2 name vec1
$lines
batch
}

# The switch has to learn where the guest is now.
reaches_peer() { ping -n -q -c 1 -i 0.02 -w 5 "$peer" > /dev/null; }

take() {
    if ! in_place_of "unused$1" "vec$1"; then
        in_place_of "vec$1" "unused$1"
        reaches_peer
        echo "labkit: nic $1 cannot be used"
    elif reaches_peer; then
        echo "labkit: nic $1 up"
    else
        in_place_of "vec$1" "unused$1"
        echo "labkit: nic $1 does not reach $peer"
    fi
}

# Their numbers rise; whatever else happens to a link is told here, too.
last=1
ip -o monitor link | grep --line-buffered -o '^[0-9]*: vec[0-9]*:' | while read -r _ name; do
    number=${name#vec} number=${number%:}
    [ "$number" -gt "$last" ] || continue
    last=$number
    take "$number"
done
