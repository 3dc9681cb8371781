# programs: ip netperf ping
for tool; do command -v "$tool" >/dev/null || { echo "-$tool"; continue; }
    case $tool in
        ping | netperf | tc) said=$($tool -V 2>&1) ;;
        ip) said=$(ip -V 2>&1) ;;
        netserver) said= ;;
        *) said=$($tool --version 2>&1) ;;
    esac </dev/null
    echo "+$tool $(printf '%s\n' "$said" | head -n 1)"; done
[ ! -r /etc/os-release ] || . /etc/os-release; echo "=${VERSION_ID:-0} $ID $ID_LIKE"
