cd /run/own/wire
echo ready
while :; do
    for what in off on; do
        [ -e "$what-$2" ] || continue
        sh "/run/own/$what" "$1" > /run/own/board 2>&1
        mv "$what-$2" "done-$what-$2"
    done
    sleep 0.2
done
