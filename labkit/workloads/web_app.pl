# programs: perl
# The application behind nginx: pages of accounts, wares or products, by SCGI on a socket.
#   web_app SOCKET WORKERS
# Without a module, not even strict.pm, as a guest of QEMU has none. Each page sorts and adds up entries of its own, drawn
# from the visitor's number, and shows as many of them as fill the wanted bytes.
my ($path, $workers) = @ARGV;
my $entries = 4000;
socket(my $server, 1, 1, 0) or die "no socket: $!\n";
unlink $path;
bind($server, pack("S a*", 1, $path)) or die "$path: $!\n";
chmod 0666, $path;
listen($server, 1024) or die "$path: $!\n";
my @others;
for (2 .. $workers) { my $other = fork // die "cannot fork: $!\n"; if (!$other) { @others = (); last } push @others, $other }
$SIG{TERM} = sub { kill "TERM", @others; exit };
$SIG{PIPE} = "IGNORE";
while (1) {
    accept(my $client, $server) or next;
    answer($client);
    close $client;
}

# A netstring of names and values, each ended by a zero (SCGI 1).
sub answer {
    my ($client) = @_;
    my $head = "";
    until ($head =~ /^(\d+):/ && length $head > $1 + length $1) {
        sysread($client, $head, 8192, length $head) or return;
    }
    # Whoever has given up is not worked for: what is due later would have to wait for that.
    return if defined recv($client, my $more, 1, 0x42) && !length $more;
    my %said = split /\0/, substr($head, 1 + index $head, ":"), -1;
    my ($name) = $said{REQUEST_URI} =~ m{^/page/(\w+)};
    my %wanted = $said{QUERY_STRING} =~ /(\w+)=(\d+)/g;
    my $page = page($name, $wanted{visitor} || 1, $wanted{bytes} || 4096);
    my $out = "Status: 200 OK\r\nContent-Type: text/html\r\nContent-Length: @{[length $page]}\r\n\r\n$page";
    while (length $out) { my $sent = syswrite($client, $out) or return; substr($out, 0, $sent, "") }
}

sub page {
    my ($name, $visitor, $bytes) = @_;
    my $next = $visitor;
    my @drawn = map { $next = ($next * 1103515245 + 12345) % 2147483648 } 1 .. 2 * $entries;
    my @made = map { [$drawn[2 * $_] % 3650, $drawn[2 * $_ + 1] % 100000] } 0 .. $entries - 1;
    my ($sum, $text) = (0, "<html><head><title>$name of $visitor</title></head><body><table>\n");
    for (sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] } @made) {
        $sum += $_->[1];
        next if length $text > $bytes - 60;
        $text .= sprintf "<tr><td>%d</td><td>%.2f</td><td>%.2f</td></tr>\n", $_->[0], $_->[1] / 100, $sum / 100;
    }
    $text .= sprintf "</table><p>%.2f</p>", $sum / 100;
    my $rest = $bytes - 14 - length $text;
    return $text . ($rest > 0 ? "x" x $rest : "") . "</body></html>";
}
