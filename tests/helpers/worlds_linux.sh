# programs: ip losetup mount
set -e
ip link set lo up
ip link add lab0 type veth peer name lab1
ip link set lab0 up; ip link set lab1 up
mkdir "$1/groups" && mount --rbind /sys/fs/cgroup "$1/groups"
mount -t sysfs sysfs /sys && mount --rbind "$1/groups" /sys/fs/cgroup
mount -t tmpfs tmpfs /etc/default; mount -t tmpfs tmpfs /var/lib
truncate -s 8M "$1/disk2"; losetup -f --show "$1/disk2" > "$1/loop"
