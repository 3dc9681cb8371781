# programs: esxcli
read -r id </etc/machine-id && [ "${id#uninit}" = "$id" ] && [ "$id" ] && echo "machine-id $id" ||
{ id=$(esxcli system uuid get) && echo "esxi $id"; } ||
{ read -r id </sys/class/dmi/id/product_uuid && echo "product $id"; } || echo "none -"
uname -n
