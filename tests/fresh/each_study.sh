#!/bin/sh
# In a fresh Debian after the README's commands: every study that is no draft, quickly, one by one.
# Nothing but free programs is there.
set -eu
names=$(.venv/bin/labkit studies --json | .venv/bin/python -c '
import json, sys
print(*(study["name"] for study in json.load(sys.stdin) if not study["draft"]))')
failed=
for name in $names; do
    began=$(date +%s) code=0
    .venv/bin/labkit run "$name" --quick >"/tmp/$name.log" 2>&1 || code=$?
    echo "$name ended with $code after $(($(date +%s) - began)) s"
    [ "$code" = 0 ] || { tail -n 25 "/tmp/$name.log" && failed="$failed $name"; }
done
[ -z "$failed" ] || { echo "failed:$failed" && exit 1; }
