# programs: find
into "$1" "$2"; target "$3"
find . ! -name . -prune -name "${4%-*}-*" -mtime +2 -exec rm -rf {} + 2>/dev/null
echo "$kind"
if [ "$9" ] && [ -f "./$3" ] && [ ! -d "./$4" ] && [ "$(wc -c <"./$3")" -eq "$6" ]; then
 echo target; blocks "./$3" "$7" "$8"; exit 0; fi
if [ -d "./$4" ] && [ ! -L "./$4" ]; then
 mine "$4"; [ -e part ] || : >part
 [ ! -L part ] && [ -f part ] && [ -O part ] || no "$4/part is not ours"
 room $(($5 - $(du -k part | cut -f 1)))
 echo part; blocks part $((($(wc -c <part) + 262143) / 262144)) "$8"
else room "$5"; mkdir "./$4" && cd -P "./$4" && : >part || exit 9; fi
