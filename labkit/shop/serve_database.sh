# programs: initdb find grep
# Serves shops by a database of our own, in the foreground: its files stay in the folder, so that the
# next one finds there what was filled once. It never runs as root; `none` only makes the files.
#   serve_database FOLDER ADDRESS PORT durable|fast|none BUFFERS_MB CONNECTIONS [TURN]
set -eu
folder=$1 address=$2 port=$3 durable=$4 buffers=$5 connections=$6 turn=${7:-}

for bin in $(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin 2> /dev/null | sort -V -r) ""; do
    [ ! -x "$bin/initdb" ] || break
done
PATH=${bin:+$bin:}$PATH:/usr/sbin
command -v initdb > /dev/null || { echo "no PostgreSQL is installed here" >&2; exit 1; }

user=
[ "$(id -u)" != 0 ] || user=$(id -u postgres 2> /dev/null || id -u nobody)
# Words and no function: what is started with them in the background is the server itself.
own=
[ -z "$user" ] || own="setpriv --reuid=$user --regid=$user --clear-groups"

# Whose turn it is: the CPUs of one NUMA node after the other.
node() {
    [ "$turn" ] || return 0
    set -- /sys/devices/system/node/node[0-9]*
    shift $((turn % $#))
    echo taskset -c "$(cat "$1/cpulist")"
}

owned() { [ -z "$user" ] || chown "$user" "$@"; }

make() {
    cp secret cluster.word
    owned cluster.word
    TZ=UTC $own initdb -D "$folder/cluster" -U shop -A scram-sha-256 --pwfile="$folder/cluster.word" \
        -E UTF8 --locale=C --no-sync --wal-segsize=4 > install.log 2>&1 || return 1
    rm -f cluster.word
    echo "host all all all scram-sha-256" >> cluster/pg_hba.conf
}

mkdir -p -m 711 "$folder"
[ -O "$folder" ] || { echo "$folder belongs to somebody else" >&2; exit 1; }
umask 077
cd "$folder"
if [ ! -e made ]; then
    rm -rf cluster
    mkdir cluster
    owned cluster
    head -c 18 /dev/urandom | od -A n -t x1 | tr -d ' \n' > secret
    make || { tail -n 5 install.log >&2; exit 1; }
    : > made
fi

# What `durable` means: an order is on disk before it is acknowledged, and a torn page can be mended.
switch=on shared=posix
[ "$durable" = durable ] || switch=off
[ -d /dev/shm ] || shared=mmap
set -- postgres -D "$folder/cluster" -p "$port" -c listen_addresses="$address" \
    -c unix_socket_directories= -c max_connections="$connections" \
    -c shared_buffers="${buffers}MB" -c synchronous_commit="$switch" \
    -c full_page_writes="$switch" -c log_min_messages=log -c dynamic_shared_memory_type="$shared"
[ "$durable" != none ] || exit 0
# One that was told to end a moment ago may still be writing, and one that was killed leaves
# processes that end a moment later: the next would want the same files and the same memory.
tries=600
while [ "$tries" -gt 0 ] &&
    find -L /proc/[0-9]*/cwd -maxdepth 0 -samefile cluster 2> /dev/null | grep -q .; do
    tries=$((tries - 1))
    sleep 0.1
done
server=
trap '[ -z "$server" ] || kill -INT "$server" 2> /dev/null' TERM INT
$own $(node) "$@" &
server=$!
code=0
wait "$server" || code=$?
# What a signal has cut short is waited for once more.
while kill -0 "$server" 2> /dev/null; do wait "$server" || code=$?; done
exit "$code"
