# programs: python3 virsh
vm=$1 restarted=$2; shift 2; xml=$(mktemp) || exit
virsh -q dumpxml "$vm" --inactive --security-info | python3 -c "$@" > "$xml" || {
    rm -f "$xml"; exit 1; }
( set -- "$vm" "define $xml"; eval "$restarted" )
code=$?; rm -f "$xml"; exit "$code"
