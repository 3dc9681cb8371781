cd -P "$1" || exit 9
target "$2"; room "$5"
trap 'rm -f "./$3"' EXIT; trap 'exit 9' HUP INT PIPE TERM
(set -C; : >"./$3") && cat >"./$3" || exit 9
[ "$(wc -c <"./$3")" -eq "$6" ] || no "not all of it arrived"
set -- "$@" $(sum_of <"./$3")
[ "$8" = "$7" ] || no "it arrived damaged"
chmod "$4" "./$3" || exit 9
kept "./$3"; target "$2"; place "./$3" "./$2"; kept .
