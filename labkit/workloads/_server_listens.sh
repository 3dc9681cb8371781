for try in 1 2 3 4 5; do
    while read -r _ at _ state _; do
        [ "${at#*:}" != "$1" ] || [ "$state" != "$2" ] || exit 0
    done < "/proc/net/$3"
done
exit 1
