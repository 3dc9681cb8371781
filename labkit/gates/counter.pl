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
