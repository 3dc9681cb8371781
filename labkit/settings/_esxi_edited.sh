# programs: vim-cmd
shift
started() {
    [ ! -e "$vmx.labkit-ran" ] || { vim-cmd vmsvc/power.on "$id" >&2 && rm "$vmx.labkit-ran"; }
}
failed() { rm -f "$vmx.labkit"; started; exit 1; }
if [ "$(state)" != 'Powered off' ]; then
    : > "$vmx.labkit-ran" && vim-cmd vmsvc/power.shutdown "$id" >&2 || {
        rm -f "$vmx.labkit-ran"; exit 1; }
    n=0; until [ "$(state)" = 'Powered off' ]; do
        n=$((n + 1)); [ "$n" -lt 120 ] || {
            rm "$vmx.labkit-ran"; echo "it did not shut down in 120 s" >&2; exit 1; }
        sleep 1; done
fi
cp -p "$vmx" "$vmx.labkit" || failed
while [ $# -gt 0 ]; do
    awk -v wanted="$1" -v line="$2" '
        { key = $0; sub(/ *=.*/, "", key); sub(/^ */, "", key) }
        tolower(key) == tolower(wanted) { if (!done++ && line != "") print line; next }
        { print } END { if (!done && line != "") print line }' "$vmx.labkit"         > "$vmx.labkit2" && cat "$vmx.labkit2" > "$vmx.labkit" || failed
    rm "$vmx.labkit2"; shift 2; done
grep -q '^ *displayName *=' "$vmx.labkit" && mv -f "$vmx.labkit" "$vmx" || failed
vim-cmd vmsvc/reload "$id" || failed
started
