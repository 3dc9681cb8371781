# programs: esxcli
said=$(esxcli system settings kernel list -o "$1") || exit
printf '%s\n' "$said" | awk -v name="$1" -v nth="$2" '
    function on(word) { return toupper(word) ~ /^(TRUE|FALSE)$/ }
    $1 != name { next }
    on($NF) && on($(NF - 1)) && on($(NF - 2)) { print toupper($(NF - 3 + nth)); next }
    { for (i = 2; i <= NF; i++) if (on($i) && ++seen == nth) print toupper($i) }'
