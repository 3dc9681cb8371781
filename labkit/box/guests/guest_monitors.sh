# programs: python3
# Part of the command `guest`: how the monitors of running guests are asked.

QMP='
import json, socket, sys
place, command, *given = sys.argv[1:]
told = {"execute": command} | ({"arguments": json.loads(given[0])} if given else {})
with socket.socket(socket.AF_UNIX) as monitor:
    monitor.settimeout(20)
    monitor.connect(place)
    lines = monitor.makefile("rw")
    for one in ({"execute": "qmp_capabilities"}, told):
        print(json.dumps(one), file=lines, flush=True)
        for line in lines:
            said = json.loads(line)
            if "error" in said:
                sys.exit(said["error"]["desc"])
            if "return" in said:
                break
print(json.dumps(said["return"]))
'

qmp() {
    [ "$(wire accelerator)" != uml ] || fail "a guest of User-Mode Linux has no QMP"
    [ "$(quick state)" = running ] || fail "it is $(quick state), and so is its QMP"
    [ $# -gt 0 ] || fail "which command? guest qmp query-commands lists them"
    python3 -c "$QMP" "$home/run/qmp" "$@"
}
