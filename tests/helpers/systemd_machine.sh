# programs: mount useradd
# systemd as the first process of a machine of its own, made of this one: systemd_machine.sh FOLDER PORT USER
#
# In namespaces of its own (mount, pid, uts, ipc, cgroup). Whatever it writes is gone with it; it
# starts D-Bus, logind and an sshd by PAM, and nothing else that this machine has enabled.
set -eu
folder=$1 port=$2 user=$3 root=$1/root
mount --make-rprivate /
mount -t tmpfs none "$folder"
mkdir "$folder/upper" "$folder/work" "$root"
mount -t overlay none -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$root"

mount -t proc none "$root/proc"
mount -o bind,ro "$root/proc/sys" "$root/proc/sys"
mount -t sysfs -o ro none "$root/sys"
groups=$root/sys/fs/cgroup
if grep -q ' /sys/fs/cgroup cgroup2 ' /proc/mounts; then mount -t cgroup2 none "$groups"; else
    mount -t tmpfs none "$groups"
    mkdir "$groups/systemd" "$groups/unified"
    mount -t cgroup -o none,name=systemd none "$groups/systemd"
    mount -t cgroup2 none "$groups/unified"
fi
for place in run tmp dev var/tmp var/log; do mount -t tmpfs -o mode=755 none "$root/$place"; done
chmod 1777 "$root/tmp" "$root/var/tmp"
for name in null zero full random urandom tty; do
    touch "$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/run/sshd"
mount -t devpts -o newinstance,ptmxmode=0666 none "$root/dev/pts"
mount -t tmpfs none "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"

etc=$root/etc
rm -rf "$etc"/systemd/system/*.wants "$root"/lib/systemd/system/*.wants "$etc/fstab"
rm -rf "$etc/systemd/logind.conf" "$etc/systemd/logind.conf.d"
echo 0123456789abcdef0123456789abcdef >"$etc/machine-id"
useradd --root "$root" --create-home --shell /bin/sh "$user"
cp "$folder.key.pub" "$etc/authorized"
printf '[Login]\nKillUserProcesses=true\nKillExcludeUsers=nobody\n' >"$etc/systemd/logind.conf"
printf '%s\n' 'account required pam_permit.so' 'session required pam_systemd.so' >"$etc/pam.d/sshd"
cp "$folder.host" "$etc/host_key"
cat >"$etc/sshd_labkit" <<END
Port $port
ListenAddress 127.0.0.1
HostKey /etc/host_key
AuthorizedKeysFile /etc/authorized
PermitRootLogin prohibit-password
StrictModes no
UsePAM yes
PidFile none
END
cat >"$etc/systemd/system/labkit-sshd.service" <<END
[Unit]
After=dbus.socket systemd-logind.service
[Service]
ExecStart=/usr/sbin/sshd -D -e -f /etc/sshd_labkit
KillMode=process
END
cat >"$etc/systemd/system/labkit.target" <<END
[Unit]
Requires=dbus.socket systemd-logind.service labkit-sshd.service
END
exec env -i container=labkit PATH="$PATH" chroot "$root" /lib/systemd/systemd --unit=labkit.target
