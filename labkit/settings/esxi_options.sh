# programs: esxcli
said=$(esxcli system module parameters list -m "$1") || exit
printf '%s\n' "$said" | awk '
    NR == 2 { split($0, dashes, "  "); at = length(dashes[1]) + length(dashes[2]) + 5
              wide = length(dashes[3]) }
    NR > 2 { value = substr($0, at, wide); gsub(/ /, "", value)
             if (value != "") print $1 "=" value }'
