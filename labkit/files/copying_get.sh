cd -P "$1" || exit 9
[ "$3" ] || [ ! -L "./$2" ] || no "it is a link, and links are not followed"
[ -e "./$2" ] || no "no such file"
[ ! -d "./$2" ] || no "it is a directory"
[ -f "./$2" ] || no "it is no regular file"
[ -r "./$2" ] || no "no permission to read it"
all() { cat "./$1" || echo 'not all could be read' >&2; }
# A file of the kernel reads otherwise each time: what is sent is what is hashed.
if [ -e /dev/fd/0 ]; then { all "$2" | tee /dev/fd/3 | sum_of >&2; } 3>&1 | cat
else all "$2"; sum_of <"./$2" >&2; fi
