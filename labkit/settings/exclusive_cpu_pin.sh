# programs: virsh
vm=$1 nth=$2 of=$3; shift 3; all=$(host_cpus) || exit
guest=$(virsh -q vcpupin "$vm" | wc -l)
list=$(echo "$all" | each_cpu)
case $1 in
    exclusive) rest=$(echo "$list" | head -n "-$((of * guest))" | paste -sd , -)
        # shellcheck disable=SC2046
        set -- $(echo "$list" | head -n "-$((nth * guest))" | tail -n "$guest") "$rest" ;;
    shared) set --; n=0; while [ "$n" -le "$guest" ]; do set -- "$@" "$all"; n=$((n + 1)); done ;;
esac
pin "$vm" "$guest" "$@"
