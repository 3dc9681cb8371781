#!/bin/sh
# The guest's kernel runs this for each device that comes or goes. A NIC that was plugged in takes
# name, address and size of the one for test traffic, which is then out of use.
case $SUBSYSTEM/$ACTION/$INTERFACE in
    net/add/vec*) ;;
    *) exit 0 ;;
esac
read -r peer < /run/labkit/peer
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
number=${INTERFACE#vec}
exec > /dev/console 2>&1

# in_place_of OLD NEW: what vec1 is now is called OLD, and NEW becomes vec1
in_place_of() {
    ip -batch - << lines
link set vec1 down
link set vec1 name $1
link set $2 name vec1
$(while read -r line; do
        case $line in
            "addr add "*vec1*) echo "addr replace ${line#addr add }" ;;
            *vec1*) echo "$line" ;;
        esac
    done < /run/labkit/links)
lines
}

# The switch has to learn where the guest is now.
reaches_peer() { ping -n -q -c 1 -i 0.02 -w 5 "$peer" > /dev/null; }

if ! in_place_of "unused$number" "$INTERFACE"; then
    in_place_of "$INTERFACE" "unused$number"
    reaches_peer
    echo "labkit: nic $number cannot be used"
elif reaches_peer; then
    echo "labkit: nic $number up"
else
    in_place_of "$INTERFACE" "unused$number"
    echo "labkit: nic $number does not reach $peer"
fi
