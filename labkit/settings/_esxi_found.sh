# programs: vim-cmd
\
all=$(vim-cmd vmsvc/getallvms) || exit
line=$(printf '%s\n' "$all" |
    sed -n "s#^\([0-9][0-9]*\)  *$1  *\[\([^]]*\)\] \(.*\.vmx\)  *.*#\1 /vmfs/volumes/\2/\3#p")
[ -n "$line" ] || { echo "no virtual machine $1" >&2; exit 1; }
id=${line%% *} vmx=${line#* }
state() { vim-cmd vmsvc/power.getstate "$id" | tail -n 1; }
