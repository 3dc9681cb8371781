# programs: ip mount
set -e
mkdir /run/own/wire
mount --bind /dev/shm /run/own/wire
for place in /var/lib /var/cache /etc/corosync /dev/shm; do
    mount -t tmpfs -o mode=0755 tmpfs "$place"; done
chmod 1777 /dev/shm
mkdir -p /var/lib/corosync /var/log/corosync /var/log/pacemaker /var/log/cluster
for place in bin sbin; do
    mount -t overlay -o "lowerdir=/run/own/$place:/usr/$place" overlay "/usr/$place"; done
cp /etc/passwd /etc/group /run/own
echo 'hacluster:x:64021:64021::/var/lib/pacemaker:/bin/false' >> /run/own/passwd
echo 'haclient:x:64021:' >> /run/own/group
for file in passwd group; do mount --bind "/run/own/$file" "/etc/$file"; done
mv /run/own/corosync.conf /etc/corosync/
mkdir -p /var/lib/pacemaker/cib /var/lib/pacemaker/pengine /var/lib/pacemaker/blackbox \
    /var/lib/pacemaker/cores /run/crm
mv /run/own/cib.xml /var/lib/pacemaker/cib/
chmod 600 /var/lib/pacemaker/cib/cib.xml
chown -R hacluster:haclient /var/lib/pacemaker /run/crm /var/log/pacemaker
ip link add br1 type bridge forward_delay 0
ip addr flush dev "$1"
ip link set "$1" master br1
ip addr add "$2/24" dev br1
ip link set br1 up
ip link add center0 type veth peer name center1
ip link set center0 master br1 up
ip link set center1 up
