# programs: dd
# Says which file system a folder is in, and fails if that takes no direct I/O: fio_direct FOLDER
file=$(mktemp "$1/labkit-direct.XXXXXXXX") || exit
dd if=/dev/zero of="$file" bs=4096 count=1 oflag=direct; code=$?
rm -f "$file"; stat -f -c %T "$1"; exit $code
