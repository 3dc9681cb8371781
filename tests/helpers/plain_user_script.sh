# programs: mount setpriv
set -e
home=$1 closed=$2 uid=$3; shift 3
while [ "$1" != -- ]; do
    mkdir -p "$home/.kept$1"
    mount --bind "$1" "$home/.kept$1"
    set -- "$@" "$1"
    shift
done
shift
if [ "$closed" ]; then
    mount -t tmpfs -o mode=0755 tmpfs "$closed"
    for place; do mkdir -p "$place"; mount --rbind "$home/.kept$place" "$place"; done
fi
# A list that is replaced takes along what is mounted on it, so the whole folder is.
mkdir -p "$home/.etc"
mount -t tmpfs tmpfs "$home/.etc"
cp -a /etc/. "$home/.etc"
cp "$home/passwd" "$home/.etc/passwd"
[ ! -e "$home/subuid" ] || cp "$home/subuid" "$home/.etc/subuid"
[ ! -e "$home/subuid" ] || cp "$home/subuid" "$home/.etc/subgid"
mount --bind "$home/.etc" /etc
cd "$home"
exec setpriv --reuid="$uid" --regid="$uid" --clear-groups --inh-caps=-all \
    env -i HOME="$home" LABKIT_OUT="$home/out" PATH="$PATH" sh "$home/words"
