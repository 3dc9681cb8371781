use strict; use Time::HiRes qw(time sleep);
sub order {
 my $said = "";
 while (sysread(STDIN, my $c, 1)) { return $said if $c eq "\n"; $said .= $c }
 exit 0;
}
my $when;
syswrite(STDOUT, "clock\n");
while (($when = order()) eq "t") { syswrite(STDOUT, sprintf("%.6f\n", time)) }
pipe(my $told, my $tell);
my $child = fork();
if (!$child) {
 setpgrp(0, 0); open(STDIN, "<", "/dev/null"); sprintf("%.6f", time);
 my $left = $when - time; sleep($left) if $left > 0;
 syswrite($tell, sprintf("%.6f\n", time));
 exec { $ARGV[0] } @ARGV; syswrite(STDERR, "$ARGV[0]: $!\n"); exit 127;
}
my $watcher = fork();
if (!$watcher) {
 close(STDOUT); close(STDERR); 1 while sysread(STDIN, my $c, 1);
 kill "TERM", -$child; sleep(2); kill "KILL", -$child; exit 0;
}
waitpid($child, 0);
my $code = $? & 127 ? 128 + ($? & 127) : $? >> 8;
sysread($told, my $begun, 99); syswrite(STDERR, "\n$begun");
kill "KILL", $watcher; exit $code;
