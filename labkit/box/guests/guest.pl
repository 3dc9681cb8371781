#!/usr/bin/perl
# guest: a virtual machine of this host, as it is asked and changed in the midst of a study. A shell would
# take several times as long, most of it to start programs. All else is done by guest.sh, which this
# becomes; see there for the verbs. Changes have a file of their own, so that a look need not read them.
use strict;
our ($places, $shell) = ("/run/labkit/guests", "/run/labkit/bin/guest.sh");
my @asked = @ARGV;
my %tells = (
    get => \&get, state => sub { state() . "\n" }, pids => sub { map { "$_\n" } pids() },
    placement => \&placement, memory => \&memory, nic => sub { data_nic(1) . "\n" },
);
my %changes = map { $_ => 1 } "set", "start", "pause", "place", "lead";
if ("@ARGV" eq "each") { each_of_them(); exit }
our ($home, $user, %wires, $seen);
my $verb = meant(\@ARGV) ? shift : "";
if ($tells{$verb}) { print $tells{$verb}->(@ARGV); exit }
as_shell() unless $changes{$verb};
require "/run/labkit/bin/guest_changes.pl";
main->can($verb)->(@ARGV);

# Whether the guest is there; its name is taken from the words.
sub meant {
    my ($words) = @_;
    $home = "$places/" . (@$words && $words->[0] =~ /^@/ ? substr(shift @$words, 1) : first());
    %wires = values_in("$home/wires");
    $user = $wires{user};
    %wires && @$words
}

# A line `ABOUT COMMAND` each, encoded as the journal's fields are: where the command has something to
# tell it becomes `ABOUT TEXT`. Whoever is there at the first question is there for all of them.
sub each_of_them {
    $seen = owners();
    while (<STDIN>) {
        my ($about, $command) = split or next;
        my ($guest, @words) = split / /, $command =~ s/%(..)/chr hex $1/ger;
        next unless $guest eq "guest" && meant(\@words);
        my $tells = $tells{shift @words} or next;
        my $text = join "", eval { $tells->(@words) };
        print "$about ", $text =~ s/([% \t\r\n])/sprintf "%%%02X", ord $1/ger, "\n" if $text ne "";
    }
}

sub as_shell { exec "/bin/sh", $shell, @_ ? @_ : @asked; exit 127 }
sub fail { $! = 1; die "guest: @_\n" }    # which is the code that it ends with
sub first { opendir(my $in, $places) or return ""; (sort grep { !/^\./ } readdir $in)[0] // "" }

sub whole { open(my $file, "<", $_[0]) or return ""; local $/; <$file> // "" }
sub values_in { map { /^([^=]*)=(.*)/ ? ($1, $2) : () } split /\n/, whole($_[0]) }

sub pids { @{($seen // owners())->{$user} // []} }

# Processes, by the number of their user.
sub owners {
    opendir(my $in, "/proc") or fail("/proc cannot be read: $!");
    my %of;
    for (grep { /^\d+$/ } readdir $in) { my @stat = stat "/proc/$_" or next; push @{$of{$stat[4]}}, $_ }
    \%of
}

# T: stopped by a signal; t: by its tracer, as a guest's kernel has its processes.
sub state {
    my %found;
    for (pids()) { $found{$1} = 1 if whole("/proc/$_/stat") =~ /^.*\) (\S)/s }
    my ($paused, $traced) = (delete $found{T}, delete $found{t});
    %found ? "running" : $paused ? "paused" : $traced ? "running" : "stopped"
}

sub in_force { -e "$home/running" && state() ne "stopped" ? "$home/running" : "$home/description" }

sub get {
    my $file = in_force();
    my %has = values_in($file);
    return whole($file) unless @_;
    fail("a guest of User-Mode Linux shows no NUMA nodes") if "@_" =~ /per_node/ && $wires{accelerator} eq "uml";
    map { defined $has{$_} ? "$has{$_}\n" : fail("no such key: $_; known: @{[whole($file) =~ /^([^=]*)=/mg]}") } @_
}

sub of_host { whole("/proc/1/status") =~ /^Cpus_allowed_list:\s*(\S+)/m ? $1 : fail("no CPUs of the host") }

# The last CPU of a host, or where it has more of them than guests, one for each of these from the last on.
sub own_cpu {
    my @cpus = map { /^(\d+)-(\d+)$/ ? $1 .. $2 : $_ } split /,/, of_host();
    opendir(my $in, $places) or fail("$places cannot be read: $!");
    my @users = map { my %of = values_in("$places/$_/wires"); $of{user} // () } readdir $in;
    $cpus[@cpus > @users ? -1 - grep { $_ < $user } @users : -1]
}

# placement [host]: the latter adds a line of what the host has and would own, and one if it lacks priority
sub placement {
    my %there = values_in("$home/description");
    my %found = map { (placed($_) => 1) } map { threads($_) } pids();
    delete $found{""};
    %found = ("$there{cpus} $there{policy}\n" => 1) unless %found;
    return ((sort keys %found), @_ ? (of_host() . " own " . own_cpu() . "\n", without_priority(), crowded(%there)) : ());
}

# A CPU of the guest that waits for another one by looking again and again never lets that one run.
sub crowded {
    my %of = @_;
    $of{vcpus} > 1 ? "a guest of several CPUs would wait for itself on one of the host's\n" : ""
}

# The architecture of perl, as elf(5) has it; perl's Config takes longer to load than most that we do.
sub machine {
    open(my $perl, "<", "/proc/self/exe") or return 0;
    read($perl, my $head, 20);
    unpack "x18 v", $head
}

# sched_setscheduler of ourselves, and back again.
my $lacks;
sub without_priority {
    return $lacks if defined $lacks;
    my $call = {62 => 144, 183 => 119}->{machine()};
    my $most = $wires{accelerator} eq "uml" ? 1 : 2;    # see rank
    my $may = $call ? first_of_all($call, $most) : system("chrt -f $most true 2> /dev/null") == 0;
    $lacks = $may ? "" : "this host may give no process real-time priority (chrt)\n"
}

sub first_of_all {
    my ($call, $other, $most) = ($_[0], pack("i", 0), pack("i", $_[1]));
    syscall($call, 0, 1, $most) == 0 && syscall($call, 0, 0, $other) == 0
}

sub threads {
    my $of = "/proc/$_[0]/task";
    opendir(my $in, $of) or return ();
    map { "$of/$_" } grep { /^\d+$/ } readdir $in
}

# The policy is field 41 of proc(5). A thread that has just ended has neither.
sub placed {
    my @fields = split / /, whole("$_[0]/stat") =~ s/^.*\) //sr;
    my ($cpus) = whole("$_[0]/status") =~ /^Cpus_allowed_list:\s*(\S+)/m or return "";
    @fields > 38 or return "";
    "$cpus " . ({0 => "other", 1 => "fifo", 2 => "rr"}->{$fields[38] + 0} // "policy-$fields[38]") . "\n"
}

# The file that is its memory is gone from its folder, and open.
sub memory {
    $wires{accelerator} eq "uml" or $wires{root} or fail("the memory of a guest of QEMU that may move is no file");
    for my $pid (pids()) {
        opendir(my $in, "/proc/$pid/fd") or next;
        for (sort grep { /^\d/ } readdir $in) {
            my $file = "/proc/$pid/fd/$_";
            return "$pid $_ " . system_of($file) . "\n" if (readlink $file // "") =~ m{^/.*\(deleted\)$};
        }
    }
    fail("it does not run")
}

# The kind of file system that a file is on, as proc(5) has it in mountinfo. Those that number their
# files' devices otherwise are asked.
sub system_of {
    my $device = (stat $_[0])[0] // 0;
    my $number = ($device >> 8 & 0xfff) . ":" . ($device & 0xff | $device >> 12 & 0xfff00);
    return $1 if whole("/proc/self/mountinfo") =~ /^\d+ \d+ $number .* - (\S+) /m;
    my $said = `stat -L -f -c %T $_[0]`;
    chomp $said;
    $said
}

# As the kernel of a guest is told it, at its start (guest_boot.sh) and by its monitor.
sub data_nic {
    my %of = values_in("$home/description");
    my $end = $of{nic} eq "direct" ? "raw,ifname=$wires{direct}" : "tap,ifname=$wires{tap}";
    "vec$_[0]:transport=$end,depth=$of{batch},mac=$wires{mac1}" . ($of{lro} eq "off" ? "" : ",gro=1")
}
