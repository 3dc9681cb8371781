first=$1 n=$2; shift 2
folder=$(mktemp -d) || exit
trap 'wait; rm -rf "$folder"; exit 143' TERM
while [ "$n" -gt 0 ]; do
    n=$((n - 1)); mkdir "$folder/$n"
    "$@" --port "$((first + n))" --dir "$folder/$n" &
done
wait; rm -rf "$folder"; exit 1
