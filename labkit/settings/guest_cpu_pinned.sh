# programs: virsh
vm=$1; shift
for pair; do
    case $pair in
        *=*) virsh -q vcpupin "$vm" "${pair%%=*}" "${pair#*=}" --live || exit ;;
        *) all=$(virsh -q vcpupin "$vm") || exit
           for cpu in $(printf '%s\n' "$all" | awk '{ print $1 }'); do
               virsh -q vcpupin "$vm" "$cpu" "$pair" --live || exit; done ;;
    esac; done
