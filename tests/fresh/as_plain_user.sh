#!/bin/sh
# programs: su sudo useradd
# In a fresh Debian: the demo as a plain user: as_plain_user.sh sudo|alone
set -eu
how=$1
if [ "$how" = sudo ]; then
    labkit/programs/install.sh 'for a user who may become root' sudo
    echo 'plain ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/plain
else
    # Without sudo, a user needs that part of Python that Debian packs by itself.
    labkit/programs/install.sh 'for a user who may not become root' python3-venv
fi
useradd -m -s /bin/sh plain
git -c safe.directory='*' clone -q . /tmp/theirs
cp -a /tmp/theirs '/home/plain/their lab'
chown -R plain '/home/plain/their lab'
su - plain -c 'cd "their lab" && umask 077 && make demo'
