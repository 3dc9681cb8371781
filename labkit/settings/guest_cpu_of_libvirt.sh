# programs: virsh awk
pins=$(virsh -q vcpupin "$1") many=$(virsh -q vcpucount "$1" --current --live) || exit
now=$(printf '%s\n' "$pins" | awk '{ printf "%s%s=%s", (NR > 1 ? " " : ""), $1, $2 }')
