# programs: java
# Runs a class of Hadoop's against the cluster of this folder, and says when by the machine's clock.
#   job FOLDER HOME CLASS WORDS...
folder=$1 home=$2; shift 2
java=$(readlink -f "$(command -v java)")
export JAVA_HOME="${java%/bin/java}"
unset HADOOP_HOME HADOOP_CONF_DIR HADOOP_OPTS CLASSPATH JAVA_TOOL_OPTIONS
cd "$folder" || exit
read -r begun _ </proc/uptime
java -Xmx128m "@$home/options" -cp "$(cat "$home/classpath"):$folder/conf" -Dlabkit.level=WARN \
    "$@" 2>&1
code=$?
read -r ended _ </proc/uptime
echo "from $begun to $ended code $code"
