#!/bin/sh
action= node=
while read -r line; do
    case $line in action=*) action=${line#*=} ;; port=* | nodename=*) node=${line#*=} ;; esac
done
[ "$1" != -o ] || action=$2
case $action in
    off | reboot)
        touch "/run/own/wire/off-$node"
        n=0; until [ -e "/run/own/wire/done-off-$node" ]; do
            n=$((n + 1)); [ "$n" -lt 50 ] || exit 1; sleep 0.1; done
        rm -f "/run/own/wire/done-off-$node"
        ;;
    metadata)
        cat << XML
<?xml version="1.0"?>
<resource-agent name="fence_board" shortdesc="A board"><longdesc>A board</longdesc><parameters>
<parameter name="action" unique="0" required="0"><content type="string" default="off"/>
<shortdesc lang="en">What</shortdesc></parameter>
<parameter name="port" unique="0" required="0"><content type="string"/>
<shortdesc lang="en">Host</shortdesc></parameter></parameters>
<actions><action name="off"/><action name="reboot"/><action name="on" automatic="0"/>
<action name="status"/><action name="monitor"/><action name="list"/><action name="metadata"/>
</actions></resource-agent>
XML
        ;;
esac
