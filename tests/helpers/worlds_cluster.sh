# programs: corosync corosync-cmapctl crm_attribute ip mount pacemakerd
set -e
ip link set lo up
for place in /run /var/lib /var/log /dev/shm; do mount -t tmpfs tmpfs "$place"; done
mkdir /run/corosync /var/lib/corosync
corosync -f -c "$1/corosync.conf" >"$1/log" 2>&1 &
n=0; until corosync-cmapctl -g runtime.config.totem.token >/dev/null 2>&1; do
    n=$((n + 1)); [ "$n" -lt 100 ] || { tail -n 3 "$1/log" >&2; exit 1; }; sleep 0.1; done
for each in cib pengine blackbox cores; do mkdir -p "/var/lib/pacemaker/$each"; done
mkdir /run/crm /var/log/pacemaker
for each in passwd group; do cp "/etc/$each" "/run/$each"; done
echo 'hacluster:x:64021:64021::/var/lib/pacemaker:/bin/false' >> /run/passwd
echo 'haclient:x:64021:' >> /run/group
for each in passwd group; do mount --bind "/run/$each" "/etc/$each"; done
chown -R hacluster:haclient /var/lib/pacemaker /run/crm /var/log/pacemaker
pacemakerd -f >>"$1/log" 2>&1 &
n=0; until crm_attribute -t crm_config -n dc-deadtime -v 2s >/dev/null 2>&1; do
    n=$((n + 1)); [ "$n" -lt 100 ] || { tail -n 3 "$1/log" >&2; exit 1; }; sleep 0.2; done
