# programs: tar
# Makes the folder of a cluster's host, with the settings that arrive as an archive. A Hadoop that is
# somebody else's is named, and nothing is done beside it.
#   set_up FOLDER
folder=$1 ours=${1%-*}- network=$(readlink /proc/self/ns/net)
# shellcheck disable=SC2013 # names of files, without blanks
for words in $(grep -l -a -F org.apache.hadoop. /proc/[0-9]*/cmdline 2>/dev/null); do
    process=${words#/proc/} process=${process%/cmdline}
    grep -q -a -F org.apache.hadoop.yarn.sls. "$words" 2>/dev/null && continue # a simulator
    case $(tr '\0' '\n' <"$words" 2>/dev/null | head -n 1) in java|*/java) ;; *) continue;; esac
    # In another network it has other ports; of another user's process only root can read which.
    case $(readlink "/proc/$process/ns/net" 2>/dev/null) in ''|"$network") ;; *) continue;; esac
    if grep -q -a -F -e "$ours" "$words" 2>/dev/null; then
        kill -KILL "$process" # of a run that was killed
    else
        echo "another Hadoop runs here: process $process" >&2
        exit 9
    fi
done
rm -rf "$ours"*
mkdir -m 700 "$folder" && tar -x -f - -C "$folder" &&
    mkdir -p "$folder"/conf/webapps/hdfs "$folder"/conf/webapps/datanode \
        "$folder"/conf/webapps/cluster "$folder"/conf/webapps/node "$folder"/conf/webapps/static
