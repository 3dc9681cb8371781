# Part of the command `guest`: how the monitors of running guests are asked.

# A datagram each way: a head of three numbers, and text (arch/um/drivers/mconsole.h). One that
# begins with `hear` is no request: that is what the guest has to say, on descriptor 3, in so many
# seconds before the next request is made.
MCONSOLE='
import os, select, socket, struct, sys, time
place, *told = sys.argv[1:]
head = struct.Struct("=III")
def ask(words):
    monitor.sendto(head.pack(0xCAFEBABE, 2, len(words)) + words.encode() + bytes(1), place)
    more, said = 1, ""
    while more:
        answer = monitor.recv(4096)
        wrong, more, length = head.unpack_from(answer)
        said += answer[head.size:head.size + length].decode().rstrip(chr(0))
    if wrong:
        sys.exit(said or "the monitor of the guest refuses " + words)
    print(said)
def hear(seconds, wanted):
    about, said, until = wanted.rpartition(" ")[0] + " ", b"", time.monotonic() + seconds
    while True:
        *lines, said = said.split(b"\n")
        for line in (line.decode("utf-8", "replace").strip() for line in lines):
            if line.startswith("gone") or (line.startswith(about) and line != wanted):
                sys.exit(line)
            if line == wanted:
                return
        if not select.select([3], [], [], max(0.0, until - time.monotonic()))[0]:
            sys.exit(f"nothing heard for {seconds:g} s")
        said += os.read(3, 4096)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as monitor:
    monitor.settimeout(20)
    monitor.bind("")
    for words in told:
        kind, _, rest = words.partition(" ")
        if kind == "hear":
            hear(float(rest.partition(" ")[0]), rest.partition(" ")[2])
        else:
            ask(words)
'

mconsole() { python3 -IS -c "$MCONSOLE" "$home/run/monitor/mconsole" "$@"; }

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
