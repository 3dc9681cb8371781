# programs: grep
found=
files=$(grep -ls "$1" /proc/[0-9]*/cmdline 2>/dev/null)
for file in $files; do
    case $cpus in ' '*' '*) ;; *) found=" awake:${cpus# }"; continue ;; esac
    while read -r name allowed; do
        [ "$name" != Cpus_allowed_list: ] || found="$found awake:$allowed"
    done < "${file%cmdline}status"
done 2>/dev/null
# shellcheck disable=SC2086
case $found in
    ' '*' '*) printf '%s\n' $found | sort -u ;;
    ' '*) echo "${found# }" ;;
esac
for cpu in $cpus; do echo "cpu:$cpu"; done
