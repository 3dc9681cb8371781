folder=$1 what=$2 sign=$3 dev=$4 known=$5; shift 5
now=$(told "$dev")
if [ -z "$known" ]; then echo "$now"
elif [ "$now" != "$known" ]; then
    was=$dev dev=
    for path in "$folder"/*; do
        [ "$known" = software ] || [ "$(told "${path##*/}")" != "$known" ] || dev=${path##*/}
    done
    [ "$dev" ] || { echo "the $what that was $was ($known) is gone" >&2; exit 1; }
fi
for word; do
    shift
    case $word in *"$sign"*) word=${word%%"$sign"*}$dev${word#*"$sign"} ;; esac
    set -- "$@" "$word"
done
exec "$@"
