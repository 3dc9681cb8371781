#!/bin/sh
# programs: ssh-keygen sshd sudo useradd
# In a fresh Debian: `labkit prepare` brings what is missing over SSH, as root and then by sudo.
#
# Prints what labkit says, and a line "as WHO: PROGRAM is there" for each that came.
set -eu
make python
labkit/programs/install.sh 'to be reached by SSH' openssh-server sudo passwd
work=$(mktemp -d) port=2299
mkdir -p /run/sshd "$work/lab"
ssh-keygen -q -t ed25519 -N '' -f "$work/lab/user"
ssh-keygen -q -t ed25519 -N '' -f "$work/host"
useradd -m -s /bin/sh -p '*' plain # without a password, and not locked
echo 'plain ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/plain
/usr/sbin/sshd -D -e -f /dev/null -h "$work/host" -p $port -o ListenAddress=127.0.0.1 \
    -o PidFile=none -o StrictModes=no -o UsePAM=no -o AuthorizedKeysFile="$work/lab/user.pub" \
    2>"$work/log" &
trap 'kill $!; rm -rf "$work"' EXIT
chmod 755 "$work" "$work/lab"
echo "[127.0.0.1]:$port $(cut -d ' ' -f 1,2 "$work/host.pub")" >"$work/lab/known_hosts"

lab() {
    printf 'known_hosts = "known_hosts"\n'
    for role in client server; do
        printf '[hosts.%s]\ncontrol = "127.0.0.1"\nport = %s\nuser = "%s"\nkey = "user"\n' \
            $role $port "$1"
    done
}

# The study is refused, with the command; that brings it; and then nothing is missing any more.
for one in 'root lat_ping ping' 'plain lat_10us sockperf'; do
    # shellcheck disable=SC2086
    set -- $one
    lab "$1" >"$work/lab/$1.toml"
    if command -v "$3"; then echo "$3 is there before" && exit 1; fi
    if .venv/bin/labkit prepare "$2" --lab "$work/lab/$1.toml"; then exit 1; fi
    .venv/bin/labkit run "$2" --quick --where "$work/lab/$1.toml" 2>&1 | tail -n 20 || true
    .venv/bin/labkit prepare "$2" --lab "$work/lab/$1.toml" --yes || [ "$1" = plain ]
    command -v "$3" && echo "as $1: $3 is there"
done
