# Run on a host: reclaims or locks the memory of a guest, which is a file that processes share.
#
#     reclaims PID DESCRIPTOR        every 0.2 s what can be taken goes to the disk, until PID ends
#     locks PID DESCRIPTOR           none of it goes, until PID ends
#     can-reclaims, can-locks        ends with 0 where this user may
#
# It returns once that has begun, and what it has begun stays. Only x86-64 has such guests, so the
# kernel's calls have the numbers that they have there.
use strict;
our ($mmap, $fsync, $setsid, $mlock, $pidfd_open, $process_madvise) = (9, 74, 112, 149, 434, 440);
our ($read, $shared, $nameless, $pageout, $period) = (1, 1, 0x20, 21, 0.2);

sub insisted { $_[0] >= 0 ? $_[0] : die "$_[1]: $!\n" }

# Where the process has the file in its memory: start, length, and offset in the file.
sub pieces {
    my ($pid, $inode) = @_;
    open(my $maps, "<", "/proc/$pid/maps") or return;
    map { /^(\w+)-(\w+) ...s (\w+) \S+ $inode / ? [hex $1, hex($2) - hex $1, hex $3] : () } <$maps>
}

# Asks the kernel to take these pages from the process.
sub page_out { syscall($process_madvise, $_[0], pack("QQ", $_[1], $_[2]), 1, $pageout, 0) }

sub has_ended {
    my ($process, $seconds) = @_;
    my $bits = "";
    vec($bits, $process, 1) = 1;
    select($bits, undef, undef, $seconds) > 0
}

# Only clean pages can be taken, and none of those that are locked.
sub reclaims {
    my ($pid, $process, $file, $begun) = @_;
    my $inode = (stat $file)[1];
    $begun->();
    until (has_ended($process, $period)) {
        syscall($fsync, fileno $file);
        page_out($process, @$_) for pieces($pid, $inode);
    }
}

sub locked {
    my ($from, $length, $flags, $file) = @_;
    my $at = insisted(syscall($mmap, 0, $length, $read, $flags, $file, $from), "mmap");
    insisted(syscall($mlock, $at, $length), "mlock");
}

# What anybody has locked is taken from nobody.
sub locks {
    my ($pid, $process, $file, $begun) = @_;
    my @pieces = sort { $a->[2] <=> $b->[2] } pieces($pid, (stat $file)[1]) or die "it has no memory\n";
    my $end = 0;
    for (@pieces) { $end = $_->[1] + $_->[2] if $_->[1] + $_->[2] > $end }
    locked($pieces[0][2], $end - $pieces[0][2], $shared, fileno $file);
    $begun->();
    has_ended($process, undef);
}

# Tried on a child, or on memory of our own.
sub can {
    return locked(0, 1 << 25, $shared | $nameless, -1) if $_[0] eq "can-locks";
    my $child = fork // die "fork: $!\n";
    if (!$child) { sleep 10; exit }
    my $taken = eval {
        my $process = insisted(syscall($pidfd_open, $child, 0), "pidfd_open");
        insisted(page_out($process, 0, 0), "process_madvise")
    };
    kill "KILL", $child;
    waitpid($child, 0);
    defined $taken or die $@;
}

# In a session of its own, and known by its name from when it has begun.
sub stays {
    my ($what, $pid, $descriptor, $told) = @_;
    syscall($setsid);
    open(STDIN, "<", "/dev/null"); open(STDOUT, ">", "/dev/null"); open(STDERR, ">", "/dev/null");
    my $process = insisted(syscall($pidfd_open, $pid + 0, 0), "pidfd_open");
    open(my $file, "+<", "/proc/$pid/fd/$descriptor") or die "its memory: $!\n";
    {reclaims => \&reclaims, locks => \&locks}->{$what}->($pid, $process, $file, sub {
        open(my $name, ">", "/proc/self/comm") or die "comm: $!\n";
        print($name "labkit-memory") && close($name) or die "comm: $!\n";
        print $told "begun\n";
        close $told;
    });
}

my ($what, $pid, $descriptor) = @ARGV;
if ($what =~ /^can-/) { can($what); exit }
pipe(my $hears, my $told) or die "pipe: $!\n";
my $child = fork // die "fork: $!\n";
if (!$child) {
    close $hears;
    eval { stays($what, $pid, $descriptor, $told) } or print $told $@;
    exit;
}
close $told;
my $said = <$hears>;
$said eq "begun\n" or die $said // "it did not begin\n";
