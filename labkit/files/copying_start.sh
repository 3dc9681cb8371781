# programs: openssl
LC_ALL=C; export LC_ALL; umask 077; unset CDPATH
no() { printf '%s\n' "$*" >&2; exit 9; }
if command -v openssl >/dev/null 2>&1; then sum_of() { openssl dgst -sha256 -r; }
elif command -v sha256sum >/dev/null 2>&1; then sum_of() { sha256sum; }
else no "there is neither openssl nor sha256sum, so that no copy can be checked"; fi
target() {
 [ ! -L "./$1" ] || no "it is a link, and links are not followed"
 [ ! -d "./$1" ] || no "it is a directory"
 [ ! -e "./$1" ] || [ -f "./$1" ] || no "it is no regular file"
}
room() {
 [ -w . ] || no "no permission to write there, or the file system is read-only"
 free=$(df -Pk . 2>/dev/null | sed -n '2s/.* \([0-9][0-9]*\)  *[0-9][0-9]*% .*/\1/p')
 [ -z "$free" ] || [ "$free" -ge "$1" ] || no "it needs $1 KiB and $free KiB are free"
}
kept() { sync "$1" 2>/dev/null || fsync "$1" 2>/dev/null || sync; }
place() {
 case $(mv -T 2>&1) in *'nvalid opt'*|*'nrecognized opt'*|*'llegal opt'*) mv -f "$1" "$2";;
 *) mv -fT "$1" "$2";; esac || exit 9
}
