# Prints a line of JSON ten times a second until its reader is gone: the time of this machine's
# clock, the bytes that have come and gone on LINKS, and the CPU seconds of the threads of QEMU for
# MACHINE by name, all of them in `all`. The first line has the number of CPUs.
use Time::HiRes qw(time sleep);
my ($machine, @links) = @ARGV;
$| = 1;
sub text { open(my $file, "<", $_[0]) or return ""; local $/; my $all = <$file>; defined $all ? $all : "" }
sub number { my $text = text("/sys/class/net/$_[0]/statistics/$_[1]_bytes"); $text =~ /(\d+)/ ? $1 : 0 }
my $cpus = () = text("/proc/cpuinfo") =~ /^processor/mg;
printf "{\"t\":%.4f,\"cpus\":%d}\n", time, $cpus || 1;
for (;;) {
    my $net = join ",", map { sprintf "\"%s\":[%d,%d]", $_, number($_, "rx"), number($_, "tx") } @links;
    my %spent;
    my ($pid) = text("/run/libvirt/qemu/$machine.pid") =~ /(\d+)/;
    for my $task ($pid ? glob "/proc/$pid/task/*" : ()) {
        my ($spent) = text("$task/schedstat") =~ /^(\d+)/ or next;
        my ($name) = text("$task/comm") =~ /^([\w .\/:-]+)/ or next;
        $spent{$name} += $spent / 1e9;
    }
    my @fields = $pid ? split(" ", (split /\) /, text("/proc/$pid/stat"), 2)[1] // "") : ();
    $spent{all} = ($fields[11] + $fields[12]) / 100 if @fields;
    my $cpu = join ",", map { sprintf "\"%s\":%.3f", $_, $spent{$_} } sort keys %spent;
    printf "{\"t\":%.4f,\"net\":{%s}%s}\n", time, $net, $cpu ? ",\"cpu\":{$cpu}" : "" or exit;
    sleep 0.1;
}
