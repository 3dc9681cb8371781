#!/bin/sh
# programs: ssh
# The agent by which Pacemaker takes a host's power: over the other network of the box, by a key that
# may do nothing else, as by a management board. Its options come on standard input.
folder=/run/labkit-cluster action='' node=''
while read -r line; do
    case $line in
        action=*) action=${line#*=} ;;
        port=* | nodename=*) node=${line#*=} ;;
    esac
done
[ "$1" != -o ] || action=$2

case $action in
    off | reboot)
        echo "asked $(date +%s.%N)" >> "$folder/log"
        ssh -q -i "$folder/key" -o BatchMode=yes -o ConnectTimeout=5 -o StrictHostKeyChecking=yes \
            -o UserKnownHostsFile="$folder/known_hosts" "root@$node-control" || exit 1
        echo "fenced $(date +%s.%N)" >> "$folder/log"
        ;;
    metadata)
        cat << XML
<?xml version="1.0"?>
<resource-agent name="fence_labkit" shortdesc="Power of a host of a box">
  <longdesc>Power of a host of a box</longdesc>
  <parameters>
    <parameter name="action" unique="0" required="0">
      <content type="string" default="off"/><shortdesc lang="en">What to do</shortdesc>
    </parameter>
    <parameter name="port" unique="0" required="0">
      <content type="string"/><shortdesc lang="en">The host</shortdesc>
    </parameter>
  </parameters>
  <actions>
    <action name="off"/><action name="reboot"/><action name="on" automatic="0"/>
    <action name="status"/><action name="monitor"/><action name="list"/><action name="metadata"/>
  </actions>
</resource-agent>
XML
        ;;
esac
