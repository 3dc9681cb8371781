# programs: libvirtd mount virsh
set -e
for place in /run /var/lib /var/cache /var/log; do mount -t tmpfs tmpfs "$place"; done
mount --bind "$1/etc" /etc/libvirt
mount --bind "$1/passwd" /etc/passwd; mount --bind "$1/group" /etc/group
libvirtd -f /etc/libvirt/libvirtd.conf >"$1/log" 2>&1 &
n=0; until virsh -q define "$1/lab.xml" >/dev/null 2>&1; do
    n=$((n + 1)); [ "$n" -lt 150 ] || { tail -n 3 "$1/log" >&2; exit 1; }; sleep 0.2; done
virsh -q start lab >/dev/null
sed 's/>lab</>idle</; s/52:54:00:00:00:01/52:54:00:00:00:02/' "$1/lab.xml" > "$1/idle.xml"
virsh -q define "$1/idle.xml" >/dev/null
sed "s/>lab</>guest</; s/52:54:00:00:00:01/52:54:00:00:00:03/; s/ current='1'>2</>1</
    s/interface type='ethernet'/interface type='network'/; s/<disk.*//; s/<source file.*//
    s/<model type=.virtio/<source network='labkit-bridge'\/>&/" "$1/lab.xml" > "$1/guest.xml"
virsh -q define "$1/guest.xml" >/dev/null
for path in bridge direct; do
    echo "<network><name>labkit-$path</name><forward mode='bridge'/>" \
        "<bridge name='br-$path'/></network>"
done | while read -r network; do
    echo "$network" > "$1/network.xml"; virsh -q net-define "$1/network.xml" >/dev/null; done
