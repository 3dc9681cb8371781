# Writes a byte into random pages of its memory, RATE pages a second. For 0 it writes a random byte
# of each page in turn, without a pause and without an end.
# Prints, each 0.1 s of this machine's clock, seconds since it began and pages written so far.
my ($mebibytes, $rate) = @ARGV;
$| = 1;
my $pages = $mebibytes * 256;
my $memory = "\1" x ($mebibytes << 20);
sub now { open(my $up, "<", "/proc/uptime") or die; (split / /, <$up>)[0] }
my ($begun, $written, $next) = (now(), 0, 0.1);
print "pages $pages\n";
for (;;) {
    my $past = now() - $begun;
    if ($past >= $next) { printf "%.2f %d\n", $past, $written; $next = $past + 0.1 }
    # After a pause it does not catch up: what was not written then never is.
    if ($rate && $rate * $past - $written > $rate / 2) { $begun += $past - $written / $rate; next }
    my $due = $rate ? int($rate * $past) : $written + 1000;
    $due = $written + 1000 if $due > $written + 1000;
    for (; $written < $due; $written++) {
        my $page = $rate ? int(rand $pages) : $written % $pages;
        substr($memory, $page * 4096 + int(rand 4096), 1) = chr(1 + ($written & 127));
    }
    select(undef, undef, undef, 0.005) if $rate && $written >= int($rate * $past);
}
