verb=$1 guest=$2 mark=$3
found=$(guest "@$guest" memory) || exit
echo "on ${found##* }"
begun=
files=$(grep -lsz "$mark" /proc/[0-9]*/cmdline 2>/dev/null)
for file in $files; do
    if read -r name < "${file%cmdline}comm" && [ "$name" = labkit-memory ]; then begun=yes; fi
done 2>/dev/null
[ -z "$begun" ] || echo "$verb"
