"""What a host counts, told again and again by one program that stays there.

To start the few programs that `gate.collect` needs takes a guest without hardware support longer
than to read everything. Both print the same lines.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from labkit.errors import HostError
from labkit.files import Pipe
from labkit.fleet import clock
from labkit.gates import gate
from labkit.host import Host

PROGRAMS = ("perl",)

PATIENCE_SECONDS = 30.0
MOST = 16 << 20
# Asked by a line, it says how many bytes it will say, and says them. Files of /proc have no size,
# so each is read to its end; that of a process comes whole by one read. A guest pays for each call
# of its kernel, so files have no buffer, and what NICs count is asked for in one go (rtnetlink(7),
# struct rtnl_link_stats64 in linux/if_link.h): each file of it would take as long as all else.
PERL = r"""
use strict; use Time::HiRes;
sub whole {
 open(my $file, "<:unix", $_[0]) or return ""; my ($all, $part) = ("", "");
 $all .= $part while sysread($file, $part, 65536); $all
}
sub lines {
 my ($file, $wanted) = @_; my $said = "";
 for (split /\n/, whole($file)) { $said .= "$file:$_\n" if !$wanted || /$wanted/ }
 $said
}
sub named {
 my ($folder, $wanted) = @_; opendir(my $in, $folder) or return ();
 map { "$folder/$_" } sort grep { /$wanted/ } readdir $in
}
my %errors = (4 => "rx", 5 => "tx", 10 => "rx_length", 11 => "rx_over", 12 => "rx_crc",
 13 => "rx_frame", 14 => "rx_fifo", 15 => "rx_missed", 16 => "tx_aborted", 17 => "tx_carrier",
 18 => "tx_fifo", 19 => "tx_heartbeat", 20 => "tx_window");
sub links {
 socket(my $kernel, 16, 3, 0) or die; my $said = "";
 send($kernel, pack("L S S L x20", 32, 18, 0x301, 1), 0) or die;
 while (1) {
  recv($kernel, my $part, 65536, 0); length $part or die;
  while (length $part) {
   my ($size, $kind) = unpack("L S", $part);
   return $said if $kind == 3;
   $kind == 16 && $size > 32 or die;
   $said .= link_errors(substr($part, 32, $size - 32)); $part = substr($part, $size + 3 & ~3);
  }
 }
}
sub link_errors {
 my ($left, %has) = $_[0];
 while (length $left) {
  my ($size, $kind) = unpack("S S", $left); $size > 3 or die;
  $has{$kind} = substr($left, 4, $size - 4); $left = substr($left, $size + 3 & ~3);
 }
 my ($name, @counts) = (unpack("Z*", $has{3}), unpack("Q*", $has{23})); @counts > 20 or die;
 join "", map { "/sys/class/net/$name/statistics/$errors{$_}_errors:$counts[$_]\n" } keys %errors
}
sub files {
 join "", map { lines($_) } map { named("$_/statistics", '_errors$') }
  named("/sys/class/net", '^[^.]')
}
sub process {
 open(my $file, "<:unix", "$_[0]/stat") or return ""; my $said;
 sysread($file, $said, 4096) ? "$_[0]/stat:$said" : ""
}
sub limits {
 my ($root, $group, $said) = (@_, "");
 for (; $group; $group =~ s{/[^/]*$}{}) {
  $group =~ s{/$}{}; $said .= lines("$root$group/cpu.stat", "throttled")
 }
 $said
}
sub counted {
 my $said = sprintf("date:%.9f\n", Time::HiRes::time());
 $said .= lines($_) for "/proc/uptime", "/proc/loadavg",
  (map { named("$_/thermal_throttle", '_throttle_count$') }
   named("/sys/devices/system/cpu", '^cpu'));
 $said .= lines($_, '^(cpu|pswp|Tcp:)') for "/proc/stat", "/proc/vmstat", "/proc/net/snmp";
 $said .= eval { links() } // files();
 for (split /\n/, whole("/proc/self/cgroup")) {
  my ($number, $kinds, $group) = split /:/, $_, 3;
  $said .= limits("/sys/fs/cgroup", $group) if $number eq "0" && $kinds eq "";
  $said .= limits("/sys/fs/cgroup/cpu", $group) if ",$kinds," =~ /,cpu,/;
 }
 $said .= process($_) for named("/proc", '^\d+$');
 $said . "end:\n"
}
while (sysread(STDIN, my $asked, 1)) {
 my $said = counted(); $said = length($said) . "\n$said";
 while (length $said) { substr($said, 0, syswrite(STDOUT, $said) || exit, "") }
}
"""
SHELL = f"""
while read -r _; do
    said=$({{ {gate.SCRIPT} }} 2>/dev/null)
    printf '%s\\n%s\\n' "$((${{#said}} + 1))" "$said"
done"""
WORDS = (
    "sh", "-c", f'! perl -MTime::HiRes -e 1 2>/dev/null || exec perl -e "$1"\n{SHELL}', "labkit",
    PERL,
)  # fmt: skip


@dataclass
class Counters:
    """One such program on each host that has been asked; a host is asked by one at a time."""

    _there: dict[Host, tuple[ExitStack, Pipe]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def collect(self, host: Host) -> str:
        """What the host counts; asked anew where the program has ended, as with its machine."""
        if host in self._there:
            try:
                return self._asked(host)
            except HostError:
                self._forget(host)
        self._open(host)
        return self._asked(host)

    def _asked(self, host: Host) -> str:
        _, pipe = self._there[host]
        pipe.send(b"\n")
        size = clock.line_of(pipe, host.name)
        if not (size.isdigit() and int(size) < MOST):
            raise HostError(f"{host.name}: what counts there says {size!r}")
        said = bytearray()
        while len(said) < int(size):
            part = pipe.recv(int(size) - len(said))
            if not part:
                raise HostError(f"{host.name}: what counts there has ended")
            said += part
        return said.decode("utf-8", "replace")

    def _open(self, host: Host) -> None:
        with ExitStack() as stack:
            pipe = stack.enter_context(host.raw(*WORDS))
            pipe.patience = PATIENCE_SECONDS
            with self._lock:
                self._there[host] = stack.pop_all(), pipe

    def _forget(self, host: Host) -> None:
        with self._lock:
            stack, _ = self._there.pop(host)
        stack.close()

    def close(self) -> None:
        """End all of them."""
        for host in list(self._there):
            self._forget(host)


@contextmanager
def counting() -> Iterator[Counters]:
    """Counters until we leave."""
    counters = Counters()
    try:
        yield counters
    finally:
        counters.close()
