# Part of the command `guest`: how the monitors of running guests are asked.

# A datagram each way: a head of three numbers, and text (arch/um/drivers/mconsole.h).
MCONSOLE='
import socket, struct, sys
place, words = sys.argv[1:]
head = struct.Struct("=III")
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as monitor:
    monitor.settimeout(20)
    monitor.bind("")
    monitor.sendto(head.pack(0xCAFEBABE, 2, len(words)) + words.encode() + bytes(1), place)
    more, said = 1, ""
    while more:
        answer = monitor.recv(4096)
        wrong, more, length = head.unpack_from(answer)
        said += answer[head.size:head.size + length].decode().rstrip(chr(0))
if wrong:
    sys.exit(said or "the monitor of the guest refuses " + words)
print(said)
'

mconsole() { python3 -IS -c "$MCONSOLE" "$home/run/monitor/mconsole" "$1"; }

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
    [ "$(state)" = running ] || fail "it is $(state), and so is its QMP"
    [ $# -gt 0 ] || fail "which command? guest qmp query-commands lists them"
    python3 -c "$QMP" "$home/run/qmp" "$@"
}
