# programs: crm_attribute
# Shows or tells Pacemaker an option: availability_fencing KEY show|tell [VALUE]
# On a host of a box a file keeps it for the cluster that a load begins.
key=$1 verb=$2 value=${3-} wanted=/run/labkit/cluster
if [ -e /run/labkit/host_key ]; then
    if [ "$verb" = show ]; then
        if [ -e "$wanted/$key" ]; then cat "$wanted/$key"; else echo default; fi
    elif [ "$value" ]; then mkdir -p "$wanted" && printf %s "$value" > "$wanted/$key"
    else rm -f "$wanted/$key"; rmdir "$wanted" 2> /dev/null || :; fi
elif [ "$verb" = show ]; then crm_attribute -t crm_config -n "$key" -G -q -d default
elif [ "$value" ]; then crm_attribute -t crm_config -n "$key" -v "$value"
else crm_attribute -t crm_config -n "$key" -D; fi
