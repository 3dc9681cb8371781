# What stands for all of it in the machine's description; a limit goes.
set -- "$1" sched.mem.min "sched.mem.min = \"$memory\"" \
    sched.mem.minSize "sched.mem.minSize = \"$memory\"" sched.mem.pin 'sched.mem.pin = "TRUE"' \
    sched.cpu.min "sched.cpu.min = \"$mhz\"" sched.cpu.units 'sched.cpu.units = "mhz"' \
    sched.cpu.max ''
