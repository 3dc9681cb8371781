# programs: java tar
# Runs Hadoop's simulator of its scheduler in a folder with its jars; settings, nodes and jobs arrive as
# an archive. Prints when the job began and ended.
#   simulate FOLDER HOME
folder=$1 home=$2
cd "$folder" && sha256sum -c sums >/dev/null && tar -x -f - && mkdir out || exit
java=$(readlink -f "$(command -v java)")
export JAVA_HOME="${java%/bin/java}"
unset HADOOP_HOME HADOOP_CONF_DIR HADOOP_OPTS CLASSPATH JAVA_TOOL_OPTIONS
if ! java -Xmx700m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UseContainerSupport \
    --add-opens=java.base/java.lang=ALL-UNNAMED -cp "$folder/*:$(cat "$home/classpath"):$folder/conf" \
    org.apache.hadoop.yarn.sls.SLSRunner -tracetype=SYNTH -tracelocation=jobs.json -nodes=nodes.json \
    -output=out >log 2>&1; then
    grep -E 'Exception|ERROR|OutOfMemory' log | tail -n 3 >&2
    exit 1
fi
cat out/jobruntime.csv
