# programs: crm_resource virsh
# Says whether this host's libvirt runs the machine of a resource: _guarded_domain RESOURCE
file=$(crm_resource -r "$1" -g config --quiet) || exit
at=$(crm_resource -r "$1" -g hypervisor --quiet 2> /dev/null) || at=qemu:///system
name=$(sed -n 's:.*<name>\(.*\)</name>.*:\1:p' "$file" | head -n 1)
[ "$name" ] || exit 1
running=$(virsh -q -c "$at" list --name --state-running) || exit
if echo "$running" | grep -q -x -F "$name"; then echo running; else echo off; fi
