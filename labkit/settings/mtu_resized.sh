# programs: esxcli
# shellcheck disable=SC2046
set -- $(sizes "$1") "$2" "$3"
[ $# -eq 6 ] || exit
top=$6; for n in "$2" "$4" "$5"; do [ "$n" -le "$top" ] || top=$n; done
[ "$top" -eq "$4" ] || esxcli network vswitch standard set -v "$3" -m "$top" || exit
esxcli network ip interface set -i "$1" -m "$5" || exit
[ "$top" -eq "$6" ] || esxcli network vswitch standard set -v "$3" -m "$6"
