# programs: virsh
pins() {
    shown=$(virsh -q vcpupin "$1") && emulator=$(virsh -q emulatorpin "$1") || exit
    printf '%s\n' "$shown" | awk '{ printf "%s%s", (NR > 1 ? " " : ""), $2 } END { print "" }'
    printf '%s\n' "$emulator" | awk '{ print $NF }'
}
owned_by() { for one; do virsh -q vcpupin "$one" || exit; done | wc -l; }
each_cpu() { tr , '\n' | awk -F- '{ for (i = $1; i <= $NF; i++) print i }'; }
pin() {
    vm=$1 guest=$2; shift 2
    live=; [ "$(virsh -q domstate "$vm")" = running ] && live=--live
    n=0; while [ "$n" -lt "$guest" ]; do
        virsh -q vcpupin "$vm" "$n" "$1" --config ${live:+"$live"} || exit
        shift; n=$((n + 1))
    done
    virsh -q emulatorpin "$vm" "$1" --config ${live:+"$live"}
}
