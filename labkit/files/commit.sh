into "$1" "$2"; target "$4"; mine "$3"
[ "$(wc -c <part)" -eq "$6" ] || no "not all of it arrived"
chmod "$5" part || exit 9
kept part; place part "../$4"; cd ..; kept .; rm -rf "./$3"
