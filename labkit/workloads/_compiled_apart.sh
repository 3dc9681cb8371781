# programs: chmod head rm tail
# Makes several files of one: a guest without hardware support takes seconds for each file that is
# put there, however small.
#   apart WHOLE (FILE SIZE)...
all=$1 at=1; shift
while [ "$#" -gt 0 ]; do
    tail -c "+$at" "$all" | head -c "$2" > "$1" && chmod 755 "$1" || exit
    at=$((at + $2)); shift 2
done
rm -f "$all"
