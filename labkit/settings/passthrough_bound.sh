cd "/sys/bus/pci/devices/$1" || exit
put() { printf '%s\n' "$1" | tee "$2" >/dev/null; }
put "$2" driver_override && { [ ! -e driver ] || put "$1" driver/unbind; } &&
put "$1" /sys/bus/pci/drivers_probe
