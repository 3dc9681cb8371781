# programs: java tar
# Puts Hadoop's jars, which arrive as an archive on standard input, where all users of a host find
# them: whole or not at all. Their classes are kept as this Java maps them (class data sharing),
# which takes a half off the start of each process.
#   install HOME MARK
home=$1 mark=$2 new=$1.new
command -v java >/dev/null || { echo 'java is missing' >&2; exit 1; }
java=$(readlink -f "$(command -v java)")
rm -rf "$new" && mkdir -m 755 "$new" "$new/lib" && tar -x -f - -C "$new/lib" --no-same-owner || exit
( cd "$new/lib" && sha256sum -c sums >/dev/null ) || { rm -rf "$new"; exit 1; }
rm -rf "$home" && mv "$new" "$home" || exit
set -- "$home"/lib/*.jar
classpath=$(IFS=:; echo "$*")
# Java 17 fails where the group that it is in is not the root of what it sees, as on a host of a box.
plain='-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -XX:-UseContainerSupport'
cat "${java%/bin/java}/lib/classlist" "$home/lib/classes" >"$home/classes" || exit
# shellcheck disable=SC2086 # words of options
java $plain -Xshare:dump -Xmx700m -Xlog:cds=error -XX:SharedClassListFile="$home/classes" \
    -XX:SharedArchiveFile="$home/classes.jsa" -cp "$classpath" >"$home/log" 2>&1 ||
    { tail -n 5 "$home/log" >&2; exit 1; }
rm -f "$home/classes" "$home/log"
plain="$plain --add-opens=java.base/java.lang=ALL-UNNAMED"
echo "$classpath" >"$home/classpath"
# shellcheck disable=SC2086 # words of options
printf '%s\n' $plain -XX:SharedArchiveFile="$home/classes.jsa" -cp "$classpath" >"$home/options"
chmod -R a+rX "$home"
echo "$mark" >"$home/mark"
