# programs: ip pkill
ip link set "$1" down
for name in corosync pacemaker linux.uml virsh VirtualDomain; do pkill -KILL "^$name"; done
rm -rf /run/resource-agents /dev/shm/qb-* /run/crm/*
