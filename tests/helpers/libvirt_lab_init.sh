# programs: busybox insmod ip mount
mkdir -p /dev/pts /dev/shm; mount -t devpts devpts /dev/pts; mount -t tmpfs tmpfs /dev/shm
for module in evdev button; do
    insmod "/lib/modules/$module.ko" 2>/dev/null || busybox insmod "/lib/modules/$module.ko"; done
ln -s busybox /bin/awk
echo guest > /proc/sys/kernel/hostname
ip link set lo up; ip addr add ADDRESS/24 dev eth0; ip link set eth0 up
n=0; until ls /dev/input/event* >/dev/null 2>&1 || [ "$n" -gt 50 ]; do n=$((n + 1)); sleep 0.1; done
# What acpid would do: the button is pressed, and the machine goes off.
for button in /dev/input/event*; do
    { head -c 24 "$button" >/dev/null && busybox poweroff -f; } &
done
# As most systems, it answers to ping some time before one can log in.
sleep 5
/bin/sshd -D -e -f /run/labkit/sshd_config
sleep infinity
