# programs: virsh
vm=$1 off='shut off'; state() { virsh -q domstate "$vm"; }
case $2 in
    on) virsh -q start "$vm" ;;
    *) virsh -q shutdown "$vm" && await_off ;;
esac
