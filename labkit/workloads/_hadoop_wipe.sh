# Ends what a cluster left on its host: tasks are in sessions of their own. Then its folders go.
#   wipe FOLDER PLACES...
folder=$1
for process in /proc/[0-9]*; do
    words=$(tr '\0' ' ' <"$process/cmdline") 2>/dev/null || continue
    case $words in
        *"$folder/"*) kill -KILL "${process#/proc/}" 2>/dev/null;;
    esac
done
sleep 0.1
rm -rf "$@"
