# programs: virsh
vm=$1 owners=$2; shift 2
# shellcheck disable=SC2086
guest=$(virsh -q vcpupin "$vm" | wc -l) && owned=$(owned_by $owners) || exit
[ "$1" = shared ] && owned=0
case $1 in shared | apart)
    rest=$(host_cpus | each_cpu | head -n "-$owned" | paste -s -d , -)
    set --; n=0; while [ "$n" -le "$guest" ]; do set -- "$@" "$rest"; n=$((n + 1)); done ;;
esac
pin "$vm" "$guest" "$@"
