# programs: bash java taskset
# Runs daemons of Hadoop in the foreground of a host, each on these CPUs, or on all. `started` is there
# once the logs of all of them say the words that are waited for, so many times.
#   daemons FOLDER HOME CPUS (NAME CLASS HEAP WORDS TIMES)...
folder=$1 home=$2 cpus=$3; shift 3
java=$(readlink -f "$(command -v java)")
export JAVA_HOME="${java%/bin/java}"
unset HADOOP_HOME HADOOP_CONF_DIR HADOOP_OPTS CLASSPATH JAVA_TOOL_OPTIONS
classpath=$(cat "$home/classpath"):$folder/conf
run() {
    if [ "$cpus" ]; then set -- taskset -c "$cpus" "$@"; fi
    exec "$@"
}
# A new NameNode needs its files first; the others begin at the same time.
daemon() {
    if [ "$1" = namenode ]; then
        java -Xmx96m "@$home/options" -cp "$classpath" "$2" -format -nonInteractive || exit
    fi
    run java "-Xmx$3" "@$home/options" -cp "$classpath" -Dlabkit.level=INFO "$2"
}
cd "$folder" || exit
all=''
while [ "$#" -gt 0 ]; do
    ( daemon "$@" ) >"$1.log" 2>&1 &
    echo "$!" >"$1.pid"
    all="$all $1"
    echo "$4" >"$1.words"; echo "$5" >"$1.times"
    shift 5
done
for name in $all; do
    while [ "$(grep -c -F -e "$(cat "$name.words")" "$name.log")" -lt "$(cat "$name.times")" ]; do
        if ! kill -0 "$(cat "$name.pid")" 2>/dev/null; then
            echo "$name ended:" >&2
            grep -E 'Exception|ERROR|OutOfMemory' "$name.log" | tail -n 3 >&2
            exit 1
        fi
        sleep 0.1
    done
done
: >started
wait
