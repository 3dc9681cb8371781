# programs: chpasswd mount useradd
mount --bind "$1/etc" /etc && mount --bind "$1/changes" /var/lib/labkit &&
{ grep -q '^lab:' /etc/passwd || useradd -M -d /tmp -s /bin/bash lab; } &&
echo "lab:$2" | chpasswd && sed -i "s#^root:\(.*\):[^:]*\$#root:\1:$3#" /etc/passwd || exit
programs=$4; shift 4
for one in $programs; do
    path=$(command -v "$one") || continue; mount --bind /dev/null "$(readlink -f "$path")" || exit
done
exec "$@"
