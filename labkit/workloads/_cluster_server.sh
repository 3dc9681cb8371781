#!/bin/sh
# programs: setsid
# The agent by which Pacemaker starts and ends the management server, and asks whether it runs (OCF).
# To start is to give it power: its own start goes on behind this.
folder=/run/labkit-cluster held=/dev/shm/labkit-server

runs() { [ -e "$held" ] && kill -0 "$(cat "$held")" 2> /dev/null; }

case $1 in
    start)
        runs && exit 0
        echo "start $(date +%s.%N)" >> "$folder/log"
        setsid sh "$folder/serve" > "$folder/serve.out" 2>&1 < /dev/null &
        echo $! > "$held"
        ;;
    stop)
        runs || exit 0
        kill -TERM "$(cat "$held")"
        while runs; do sleep 0.05; done
        ;;
    monitor) runs || exit 7 ;;
    meta-data)
        cat << XML
<?xml version="1.0"?>
<resource-agent name="server" version="1">
  <version>1.0</version>
  <longdesc lang="en">A management server</longdesc>
  <shortdesc lang="en">A management server</shortdesc>
  <parameters/>
  <actions>
    <action name="start" timeout="20s"/>
    <action name="stop" timeout="60s"/>
    <action name="monitor" timeout="20s" interval="1s" depth="0"/>
    <action name="meta-data" timeout="5s"/>
  </actions>
</resource-agent>
XML
        ;;
    *) exit 3 ;;
esac
