# programs: corosync-cmapctl
# Shows or tells Corosync a key of its totem: availability_token KEY show|tell [VALUE]
# On a host of a box a file keeps it for the cluster that a load begins. A key that is not there
# leaves it to the cluster's own default, which `runtime` shows.
key=$1 verb=$2 value=${3-} wanted=/run/labkit/cluster
if [ -e /run/labkit/host_key ]; then
    if [ "$verb" = show ]; then
        if [ -e "$wanted/$key" ]; then echo "set $(cat "$wanted/$key")"; else echo default; fi
    elif [ "$value" ]; then mkdir -p "$wanted" && printf %s "$value" > "$wanted/$key"
    else rm -f "$wanted/$key"; rmdir "$wanted" 2> /dev/null || :; fi
elif [ "$verb" = show ]; then
    if said=$(corosync-cmapctl -g "totem.$key" 2> /dev/null); then echo "set ${said##* }"
    else said=$(corosync-cmapctl -g "runtime.config.totem.$key") && echo "default ${said##* }"; fi
elif [ "$value" ]; then corosync-cmapctl -s "totem.$key" u32 "$value"
else corosync-cmapctl -d "totem.$key"; fi
