# programs: bash nc python3
address=$1; shift
one() {
    if command -v python3 >/dev/null; then python3 -c '
import socket, sys
try: socket.create_connection((sys.argv[1], int(sys.argv[2])), 2); print("open")
except OSError as no: print(no)' "$1" "$2"
    elif command -v bash >/dev/null; then
        timeout 2 bash -c ': < "/dev/tcp/$1/$2"' try "$1" "$2" 2>&1 && echo open
        [ $? -ne 124 ] || echo timed out
    else nc -v -w 2 "$1" "$2" </dev/null 2>&1 || echo timed out; fi; }
for port; do said=$(one "$address" "$port" | tr '\n' ' '); echo "$port $said"; done
