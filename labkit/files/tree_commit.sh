into "$1" "$2"; [ ! -L "./$3" ] || no "it is a link, and links are not followed"
sync -f "./$4" 2>/dev/null || sync
if [ -e "./$3" ]; then
 [ "$5" ] || no "it is there already"
 rm -rf "./$4.old"; (place "./$3" "./$4.old") || exit 9
 (place "./$4" "./$3") || { mv "./$4.old" "./$3"; exit 9; }
 rm -rf "./$4.old"
else place "./$4" "./$3"; fi
kept .
