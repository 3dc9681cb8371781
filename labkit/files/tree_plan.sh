# programs: find tar
into "$1" "$2"
[ ! -L "./$3" ] || no "it is a link, and links are not followed"
[ ! -e "./$3" ] || [ -d "./$3" ] || no "it is there and is no folder"
[ ! -e "./$3" ] || [ "$6" ] || no "it is there already"
find . ! -name . -prune -name "${4%-*}-*" -mtime +2 -exec rm -rf {} + 2>/dev/null
echo "$kind"; if command -v tar >/dev/null 2>&1; then echo tar; else echo cat; fi
if [ -d "./$4" ] && [ ! -L "./$4" ]; then
 mine "$4"; room $(($5 - $(du -ks . | cut -f 1))); echo again
else room "$5"; mkdir "./$4" || exit 9; fi
