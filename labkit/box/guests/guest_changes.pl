# Part of the command `guest`: what changes a guest at once.
use strict;
our ($home, $shell, $user, %wires);
my ($seconds, @nic) = (60, "nic", "batch", "lro");

sub write_file {
    my ($file, $text) = @_;
    open(my $new, ">", "$file.new") or fail("$file cannot be written: $!");
    print($new $text) && close($new) && rename("$file.new", $file) or fail("$file cannot be written: $!");
}

# The lines of a file keep their order.
sub change {
    my ($file, %new) = @_;
    my @lines = split /\n/, whole($file);
    write_file($file, join "", map { /^([^=]*)=/ && exists $new{$1} ? "$1=$new{$1}\n" : "$_\n" } @lines);
}

# One change at a time, of this and of guest.sh: until this process ends.
my $lock;
sub alone { open($lock, ">", "$home/lock") && flock($lock, 2) or fail("cannot lock $home: $!") }

sub refuse_unless_legal {
    local $_ = $_[0];
    if ($wires{accelerator} ne "uml") {
        return if /^vcpus=([1-9]|[1-5][0-9]|6[0-4])$/ || /^(nic=bridge|batch=128|lro=on)$/;
        return if /^per_node=(all|[1-9]|[1-5][0-9]|6[0-4])$/;
        fail("a guest of QEMU has no choice of $_") if /^wakeups=/;
        fail("a guest of QEMU that may move has no choice of $_") if /^(nic|batch|lro)=/ && !$wires{root};
    }
    return if /^(vcpus=1|nic=(bridge|direct)|lro=(on|off)|policy=(other|fifo)|memory=[1-9]\d*M|wakeups=(kept|lossy))$/;
    fail("a guest of User-Mode Linux has one CPU") if $wires{accelerator} eq "uml" && /^vcpus=/;
    return if /^batch=([1-9]|[1-9][0-9]|1[01][0-9]|12[0-8])$/;
    return if /^cpus=(last|all)$/;
    if (/^cpus=(\d[\d,-]*)$/) {
        mask($1) && `taskset -c $1 true 2>&1` eq "" or fail("cannot have $_");
        return;
    }
    fail("cannot mean $_; known: nic=bridge|direct batch=1..128 lro=on|off memory=...M vcpus=... " .
        "cpus=...|last|all policy=other|fifo wakeups=kept|lossy per_node=...|all");
}

sub set {
    refuse_unless_legal($_) for @_;
    alone();
    my %new = map { split /=/, $_, 2 } @_;
    $new{cpus} = own_cpu() if $new{cpus} eq "last";
    $new{cpus} = of_host() if $new{cpus} eq "all";
    my %will = (values_in("$home/description"), %new);
    my $why = $will{policy} eq "fifo" ? crowded(%will) : "";
    fail($why =~ s/\n//r) if $why;
    change("$home/description", %new);
    lead() if $wires{root} && grep { exists $new{$_} } @nic;
    my $now = state();
    return if $now eq "stopped" || !-e "$home/running";
    my %running = values_in("$home/running");
    my %told = values_in("$home/description");
    if ($wires{accelerator} eq "uml" && grep { $told{$_} ne $running{$_} } @nic) {
        if ($now eq "paused") { write_file("$home/unplugged", "") } else { plug(\&fail) }
    }
    delete @new{"memory", "vcpus", "wakeups", "per_node"};
    change("$home/running", %new);
    place() if exists $new{cpus} || exists $new{policy};
}

# What a NIC of QEMU leads to is its tap, which stays: for `bridge` a port of the virtual switch, for `direct`
# one end of a pair with the guest's own link, past any bridge. What the tap may hand over merged, and
# how many packets it takes at once from a worker of the kernel's (vhost), up to 64, is the tap's too. More
# than its guest can take merged, it never hands over.
sub lead {
    my %of = values_in("$home/description");
    my ($tap, $direct) = @wires{"tap", "direct"};
    my $path = $of{nic} eq "direct" ? "nomaster" : "master vswitch0";
    my @both = ([$tap, $direct], [$direct, $tap]);
    for (@both) { `tc qdisc del dev $_->[0] ingress 2>&1` }
    told_to("ip link set $tap $path");
    crossed(@$_) for $of{nic} eq "direct" ? @both : ();
    if ($of{lro} eq "off") { told_to("ethtool -K $tap tso off") } else { `ethtool -K $tap tso on 2>&1` }
    told_to("ethtool -C $tap rx-frames " . ($of{batch} > 64 ? 64 : $of{batch}));
    # What the guest has sent past the virtual switch came to it from outside.
    told_to("ip link set dev uplink0 type bridge_slave fdb_flush");
    announced($of{nic} eq "direct" ? $direct : "uplink0");
}

sub crossed {
    told_to("tc qdisc add dev $_[0] ingress");
    told_to("tc filter add dev $_[0] parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev $_[1]");
}

sub told_to { my $said = `$_[0] 2>&1`; fail("its NIC did not change: $_[0]: $said") if $? }

# The switch has to learn where the guest is now: a reverse ARP (RFC 903) from its address, packet(7).
sub announced {
    my ($link) = @_;
    my $mac = pack("H12", $wires{mac1} =~ tr/://dr);
    my $frame = "\xff" x 6 . $mac . pack("n n n C C n", 0x8035, 1, 0x800, 6, 4, 3) . ($mac . "\0" x 4) x 2;
    my $to = pack("S n l S C C a8", 17, 0x8035, whole("/sys/class/net/$link/ifindex"), 0, 0, 6, "\xff" x 6);
    socket(my $wire, 17, 3, 0) or fail("$link cannot be written to: $!");
    send($wire, $frame . "\0" x 18, 0, $to) or fail("$link takes no packet: $!");
}

# A NIC stays what it is, so another one is plugged in. The guest puts it in the place of the one that
# it has (guest_hotplug.pl) and says so; then that one is pulled out.
sub plug {
    my ($had, $last) = split ' ', whole("$home/slot");
    my $new = $last + 1;
    write_file("$home/slot", "$had $new\n");
    open(my $ready, "+<", "$home/ready") or fail("it cannot be heard: $!");
    my $why = mconsole("config " . data_nic($new)) || hear($ready, "nic $new up") || mconsole("remove vec$had");
    if ($why) {
        mconsole("remove vec$new");
        my %running = values_in("$home/running");
        change("$home/description", map { ($_ => $running{$_}) } @nic);
        return $_[0]->("its NIC did not change: $why");
    }
    write_file("$home/slot", "$new $new\n");
}

# A datagram each way: a head of three numbers, and text (arch/um/drivers/mconsole.h). What the answer
# will come to, and why none will.
sub ask {
    my ($words, $flags) = @_;
    socket(my $monitor, 1, 2, 0) or return undef, "no socket: $!";
    bind($monitor, pack("S", 1)) or return undef, "no address: $!";
    my $request = pack("LLL", 0xCAFEBABE, 2, length $words) . "$words\0";
    send($monitor, $request, $flags, pack("S a*", 1, "$home/run/monitor/mconsole\0"))
        or return undef, "its monitor does not listen: $!";
    return $monitor, "";
}

# Why it was refused.
sub mconsole {
    my ($words, $said, $more) = (@_, "", 1);
    my ($monitor, $why) = ask($words, 0);
    return $why if $why;
    while ($more) {
        return "its monitor says nothing" unless comes_from($monitor, 20);
        defined recv($monitor, my $answer, 4096, 0) or return "its monitor: $!";
        (my $wrong, $more, my $length) = unpack("LLL", $answer);
        $said .= substr($answer, 12, $length) =~ s/\0+$//r;
        return $said || "its monitor refuses $words" if $wrong && !$more;
    }
    ""
}

sub readable { my $bits = ""; vec($bits, fileno $_[0], 1) = 1; select($bits, undef, undef, $_[1]) > 0 }

# A kernel that goes to sleep just as it is asked may have noted the question, and sleep on until its
# next timer, which can be many seconds away; whatever it is asked next wakes it.
sub comes_from {
    my ($from, $longest) = @_;
    for (1 .. 5 * $longest) {
        return 1 if readable($from, 0.2);
        ask("version", 0x40);    # without waiting, and nobody hears the answer
    }
    0
}

# What the guest has to say, until that is what is wanted; why it is not.
sub hear {
    my ($ready, $wanted, $said, $until) = (@_, "", time + $seconds);
    my ($about) = $wanted =~ /^(.* )/;
    while (time <= $until) {
        while ($said =~ s/^(.*)\n//) {
            my $line = $1 =~ s/^\s+|\s+$//gr;
            return "" if $line eq $wanted;
            return $line if $line =~ /^gone/ || index($line, $about) == 0;
        }
        sysread($ready, $said, 4096, length $said) if comes_from($ready, 1);
    }
    "nothing heard for $seconds s"
}

# The CPUs of a list as the kernel wants them.
sub mask {
    my $mask = "\0" x 128;
    for (split /,/, $_[0]) {
        /^(\d{1,3})(?:-(\d{1,3}))?$/ && $1 <= ($2 // $1) or return "";
        vec($mask, $_, 1) = 1 for $1 .. $2 // $1;
    }
    $mask
}

# A process that the guest made meanwhile may have missed it, so it is done until it is so.
sub place {
    my %to = values_in("$home/description");
    my ($why, $looked) = ("", 0);
    for (1 .. 6) {
        for my $pid (pids()) { $why = moved($pid, \%to) || $why }
        my ($now, @others) = placement();
        next if @others || $now !~ / $to{policy}$/;
        return if $looked++ || !busy();
        select(undef, undef, undef, 0.02);
    }
    fail("its threads did not all move: $why");
}

# One that computes may be about to bring forth another, which would be what it was itself before.
sub busy { grep { whole("$_/stat") =~ /^.*\) R/s } map { threads($_) } pids() }

# By number, where we know it: sched_setaffinity and sched_setscheduler.
sub moved {
    my ($pid, $to) = @_;
    my $calls = {62 => [203, 144], 183 => [122, 119]}->{machine()};
    my ($mask, $why) = (mask($to->{cpus}), "");
    for my $task (threads($pid)) {
        my ($thread, $first) = ($task =~ m{(\d+)$}, $to->{policy} eq "fifo" ? rank($task) : 0);
        $why = ($calls ? moved_by($calls, $thread, $mask, $first) : told($thread, $to->{cpus}, $first)) || $why;
    }
    $why
}

# What emulates devices goes before the CPUs of a guest of QEMU: these give way to nobody of their own
# rank, and one that computes would keep all packets waiting.
sub rank { $wires{accelerator} ne "uml" && whole("$_[0]/comm") !~ /^CPU \d/ ? 2 : 1 }

sub moved_by {
    my ($calls, $thread, $mask, $first) = @_;
    my ($why, $policy, $priority) = ("", $first ? 1 : 0, pack("i", $first));
    my $ranked = sub { syscall($calls->[1], $thread + 0, $policy, $priority) >= 0 };
    syscall($calls->[0], $thread + 0, length $mask, $mask) >= 0 or $why = "$!";
    $ranked->() or as_guest($ranked) or $why = "$!";
    $why
}

sub told {
    my ($thread, $cpus, $first) = @_;
    my $said = `taskset -c -p $cpus $thread 2>&1 && chrt @{[$first ? "-f" : "-o"]} -p $first $thread 2>&1`;
    $? ? $said : ""
}

# In a user namespace only the guest's own user may, where its limit of real-time priority allows.
sub as_guest {
    my $child = fork // fail("cannot fork: $!");
    if (!$child) {
        require POSIX;
        $) = "$user $user";
        POSIX::_exit(POSIX::setgid($user) && POSIX::setuid($user) && $_[0]->() ? 0 : 1);
    }
    waitpid($child, 0);
    $? == 0
}

# Those that a guest's kernel traces stop with it; a signal to them would reach the guest.
sub tell_all { for (pids()) { kill $_[0], $_ if whole("/proc/$_/status") =~ /^TracerPid:\s*0$/m } }

sub start {
    alone();
    my $now = state();
    return if $now eq "running";
    if ($now eq "paused") {
        tell_all("CONT");
        return unless -e "$home/unplugged";
        plug(sub { rest(); fail(@_) });
        unlink "$home/unplugged";
        return;
    }
    close $lock;
    as_shell();
}

sub pause {
    state() ne "stopped" or system("/bin/sh", $shell, "\@" . $home =~ s{.*/}{}r, "start") == 0 or exit 1;
    alone();
    rest();
}

# Should one of them be at work just now, it goes on until it comes back to the kernel.
sub rest {
    my $until = time + 10;
    while (state() ne "paused") {
        if (time > $until) { tell_all("CONT"); fail("it is too busy to be paused") }
        tell_all("CONT");
        tell_all("STOP");
        select(undef, undef, undef, 0.001);
    }
}

1;
