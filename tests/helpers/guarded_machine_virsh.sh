#!/bin/sh
# programs: pkill setsid
while :; do
    case $1 in -q | --quiet | --connect=*) shift ;; -c) shift 2 ;; *) break ;; esac
done
runs() { read -r pid < /run/own/machine.pid && [ -d "/proc/$pid" ]; } 2> /dev/null
what="error: failed to get domain '$2'"
case $1 in
    uri) echo qemu:///system ;;
    list) ! runs || echo center-vm ;;
    domstate) if runs; then echo running; else echo "$what" >&2; exit 1; fi ;;
    dumpxml) if runs; then cat /run/labkit/scratch/center.xml; else echo "$what" >&2; exit 1; fi ;;
    create)
        ! runs || { echo "error: domain 'center-vm' already exists" >&2; exit 1; }
        setsid env -i HOME=/tmp TMPDIR=/tmp PATH="$PATH" LD_PRELOAD=/run/own/waking.so             linux.uml mem=512M root=/dev/root rootfstype=hostfs rootflags=/ ro init=/run/own/init             con=null con0=null,fd:1 ssl=null quiet initcall_blacklist=raid6_select_algo             pty.legacy_count=0 ubda=/run/labkit/scratch/center.disk             uml_dir=/run/own/uml/ umid=center             vec0:transport=raw,ifname=center1,depth=128,gro=1,mac=52:54:00:00:01:01             > /run/own/console 2>&1 < /dev/null &
        echo $! > /run/own/machine.pid
        ;;
    destroy) runs && pkill -KILL -x linux.uml ;;
    *) echo "error: unknown command: '$1'" >&2; exit 1 ;;
esac
