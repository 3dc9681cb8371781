into "$1" "$2"; target "$3"; room "$6"
trap 'rm -f "./$4"' EXIT; trap 'exit 9' HUP INT PIPE TERM
(set -C; : >"./$4") && cat >"./$4" || exit 9
[ "$(wc -c <"./$4")" -eq "$7" ] || no "not all of it arrived"
set -- "$@" $(sum_of <"./$4")
[ "${10}" = "$8" ] || [ "$kind ${10}" = "cksum $9" ] || no "it arrived damaged"
chmod "$5" "./$4" || exit 9
kept "./$4"; target "$3"; place "./$4" "./$3"; kept .
echo "$kind"
