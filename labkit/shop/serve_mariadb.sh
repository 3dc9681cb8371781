# programs: mariadbd
# Serves shops by a MariaDB of our own, in the foreground; as serve_postgresql.sh, word for word.
#   serve_mariadb FOLDER ADDRESS PORT durable|fast|none BUFFERS_MB CONNECTIONS [TURN]
set -eu
folder=$1 address=$2 port=$3 durable=$4 buffers=$5 connections=$6 turn=${7:-}
PATH=$PATH:/usr/sbin:/usr/libexec
command -v mariadbd > /dev/null || { echo "no MariaDB is installed here" >&2; exit 1; }

user=
[ "$(id -u)" != 0 ] || user=$(id -u mysql 2> /dev/null || id -u nobody)
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

mkdir -p -m 711 "$folder"
[ -O "$folder" ] || { echo "$folder belongs to somebody else" >&2; exit 1; }
umask 077
cd "$folder"
if [ ! -e made ]; then
    rm -rf cluster
    mkdir cluster
    head -c 18 /dev/urandom | od -A n -t x1 | tr -d ' \n' > secret
    [ -z "$user" ] || chown "$user" cluster
    $own mariadb-install-db --no-defaults --datadir="$folder/cluster" --skip-test-db \
        --auth-root-authentication-method=socket --innodb-log-file-size=16M > install.log 2>&1 ||
        { tail -n 5 install.log >&2; exit 1; }
    printf "CREATE OR REPLACE USER shop@'%%' IDENTIFIED BY '%s';\nGRANT ALL ON *.* TO shop@'%%';\n" \
        "$(cat secret)" > cluster/admit.sql
    [ -z "$user" ] || chown "$user" cluster/admit.sql
    : > made
fi

[ "$durable" != none ] || exit 0
flush=1
[ "$durable" = durable ] || flush=0
server=
trap '[ -z "$server" ] || kill -TERM "$server" 2> /dev/null' TERM INT
$own $(node) mariadbd --no-defaults --datadir="$folder/cluster" --port="$port" --bind-address="$address" \
    --socket="$folder/cluster/socket" --pid-file="$folder/cluster/pid" \
    --init-file="$folder/cluster/admit.sql" --skip-name-resolve --max-connections="$connections" \
    --innodb-buffer-pool-size="${buffers}M" --innodb-flush-log-at-trx-commit="$flush" \
    --innodb-doublewrite="$flush" --innodb-log-file-size=16M --innodb-ft-enable-stopword=0 \
    --innodb-fast-shutdown=1 --log-warnings=1 &
server=$!
code=0
wait "$server" || code=$?
while kill -0 "$server" 2> /dev/null; do wait "$server" || code=$?; done
exit "$code"
