# What a guest's hypervisor was entered for, up to now: GUEST begin, GUEST end
# In a box QEMU lists what the guest reads and writes of its devices' registers. A paravirtual device
# is told of work by an event instead, which is counted as it is heard. On KVM the kernel counts the
# exits of all guests. Nothing is printed where nobody counts.
guest=$1
list=/run/labkit/guests/$guest/run/traced
tell() { guest "@$guest" qmp human-monitor-command "{\"command-line\": \"$1\"}" > /dev/null; }
if ! command -v guest > /dev/null; then
    cat /sys/kernel/debug/kvm/exits 2> /dev/null || :
elif [ "$2" = begin ]; then
    tell "logfile $list" && tell "log trace:memory_region_ops_write,trace:memory_region_ops_read,trace:virtio_queue_notify" || exit
    echo 0
else
    tell "log none" && tell "logfile /dev/null" || exit
    grep -c -e memory_region_ops -e virtio_queue_notify "$list" || :
    rm -f "$list"
fi
