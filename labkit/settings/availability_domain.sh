# programs: cibadmin
# Shows or tells Pacemaker whether it guards a machine: availability_domain VM show|on|off [RESOURCE]
# No answer of the cluster is not the same as an answer that has no such resource.
vm=$1 verb=$2 resource=${3-}
case $verb in
    show)
        cibadmin -Q -o resources > /dev/null || exit
        if cibadmin -Q -A "//primitive[@id='labkit-$vm']" > /dev/null 2>&1; then echo on; else echo off; fi
        ;;
    on) cibadmin -C -o resources -X "$resource" ;;
    off) cibadmin -D -o resources -X "<primitive id='labkit-$vm'/>" ;;
esac
