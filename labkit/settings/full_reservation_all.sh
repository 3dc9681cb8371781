# programs: esxcli
of() { sed -n "s/^ *$1 *= *\"\(.*\)\".*/\1/p" "$vmx"; }
memory=$(of memSize) cpus=$(of numvcpus)
hertz=$(esxcli hardware cpu list | sed -n 's/^ *Core Speed: //p' | head -n 1)
mhz=$((${cpus:-1} * ${hertz%??????}))
set -- "$1" sched.mem.min "sched.mem.min = \"$memory\"" \
    sched.mem.minSize "sched.mem.minSize = \"$memory\"" sched.mem.pin 'sched.mem.pin = "TRUE"' \
    sched.cpu.min "sched.cpu.min = \"$mhz\"" sched.cpu.units 'sched.cpu.units = "mhz"'
