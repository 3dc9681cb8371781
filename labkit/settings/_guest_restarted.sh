# programs: virsh
vm=$1 ran=/run/labkit-ran-$1; shift
state() { virsh -q domstate "$vm"; }
started() { [ ! -e "$ran" ] || { virsh -q start "$vm" >&2 && rm "$ran"; }; }
was=$(state) || exit
if [ "$was" = running ]; then
    : > "$ran" && virsh -q shutdown "$vm" >&2 || { rm -f "$ran"; exit 1; }
    n=0; until [ "$(state)" = 'shut off' ]; do
        n=$((n + 1)); [ "$n" -lt 120 ] || {
            rm "$ran"; echo "it did not shut down in 120 s" >&2; exit 1; }
        sleep 1; done
fi
for words; do virsh -q $words >&2 || { started; exit 1; }; done
started
