# programs: corosync corosync-cmapctl pacemakerd mount
# A host's cluster software, as the first process of namespaces of its own: when it is killed, all
# that runs there has lost its power. Its configuration is in its memory, and ends with it.
#   _cluster_node FOLDER
# The folder has what labkit brought: corosync.conf, cib.xml, and the agents.
set -eu
folder=$1

mount --make-rprivate /
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
for place in /etc/corosync /var/lib/corosync /var/lib/pacemaker /var/log /usr/lib/ocf/resource.d; do
    mount -t tmpfs -o mode=0755 tmpfs "$place"
done
# Pacemaker looks for fence agents there, and nowhere else.
mkdir -p "$folder/sbin"
mount --bind /usr/sbin "$folder/sbin"
mount -t tmpfs -o mode=0755 tmpfs /usr/sbin
ln -s "$folder"/sbin/* "$folder/fence_labkit" /usr/sbin/
mkdir -p /usr/lib/ocf/resource.d/labkit /var/log/pacemaker /var/log/corosync /run/crm
mkdir -p /var/lib/pacemaker/cib /var/lib/pacemaker/pengine /var/lib/pacemaker/blackbox /var/lib/pacemaker/cores
ln -s "$folder/server" /usr/lib/ocf/resource.d/labkit/server
{ cat /etc/passwd; echo "hacluster:x:64021:64021::/var/lib/pacemaker:/bin/false"; } > /var/log/passwd
{ cat /etc/group; echo "haclient:x:64021:"; } > /var/log/group
for file in passwd group; do mount --bind "/var/log/$file" "/etc/$file"; done
cp "$folder/corosync.conf" /etc/corosync/
cp "$folder/cib.xml" /var/lib/pacemaker/cib/
chmod 600 /var/lib/pacemaker/cib/cib.xml
chown -R hacluster:haclient /var/lib/pacemaker /run/crm /var/log/pacemaker

export TZ=UTC
corosync -f > "$folder/corosync.out" 2>&1 &
until corosync-cmapctl -g runtime.config.totem.token > /dev/null 2>&1; do
    kill -0 $! || { cat "$folder/corosync.out" "$folder/corosync.log" >&2; exit 1; }
    sleep 0.05
done
exec pacemakerd -f > "$folder/pacemaker.out" 2>&1
