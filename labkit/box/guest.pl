#!/usr/bin/perl
# guest: a virtual machine of this host, as it is asked and changed in the midst of a study. A shell would
# take several times as long, most of it to start programs. All else is done by guest.sh, which this
# becomes; see there for the verbs. Changes have a file of their own, so that a look need not read them.
use strict;
our ($places, $shell) = ("/run/labkit/guests", "/run/labkit/bin/guest.sh");
my @asked = @ARGV;
our $home = "$places/" . ((@ARGV && $ARGV[0] =~ /^@/) ? substr(shift, 1) : first());
my %does = (
    get => \&get, state => sub { print state(), "\n" }, pids => sub { print map { "$_\n" } pids() },
    placement => sub { print placement(@_) }, nic => sub { print data_nic(1), "\n" },
);
my %changes = map { $_ => 1 } "set", "start", "pause";
my $verb = @ARGV ? shift : "";
as_shell() unless ($does{$verb} || $changes{$verb}) && -e "$home/wires";
our %wires = values_in("$home/wires");
our $user = $wires{user};
if ($does{$verb}) { $does{$verb}->(@ARGV); exit }
require "/run/labkit/bin/guest_changes.pl";
main->can($verb)->(@ARGV);

sub as_shell { exec "/bin/sh", $shell, @_ ? @_ : @asked; exit 127 }
sub fail { print STDERR "guest: @_\n"; exit 1 }
sub first { opendir(my $in, $places) or return ""; (sort grep { !/^\./ } readdir $in)[0] // "" }

sub whole { open(my $file, "<", $_[0]) or return ""; local $/; <$file> // "" }
sub values_in { map { /^([^=]*)=(.*)/ ? ($1, $2) : () } split /\n/, whole($_[0]) }

sub pids {
    opendir(my $in, "/proc") or fail("/proc cannot be read: $!");
    grep { my @of = stat "/proc/$_"; @of && $of[4] == $user } grep { /^\d+$/ } readdir $in
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
    my %there = values_in($file);
    print whole($file) unless @_;
    for (@_) {
        defined $there{$_} or fail("no such key: $_; known: @{[whole($file) =~ /^([^=]*)=/mg]}");
        print "$there{$_}\n";
    }
}

sub of_host { whole("/proc/1/status") =~ /^Cpus_allowed_list:\s*(\S+)/m ? $1 : fail("no CPUs of the host") }

# placement [host]: the latter adds a line of what the host has, and one if it lacks priority
sub placement {
    my %there = values_in("$home/description");
    my %found = map { (placed($_) => 1) } map { threads($_) } pids();
    delete $found{""};
    %found = ("$there{cpus} $there{policy}\n" => 1) unless %found;
    return ((sort keys %found), @_ ? of_host() . "\n" . without_priority() : ());
}

# sched_setscheduler of ourselves, for we are about to end; its number is that of perl's architecture
# (elf(5)), for perl's Config takes longer to load than all of this.
sub without_priority {
    open(my $perl, "<", "/proc/self/exe") or return "";
    read($perl, my $head, 20);
    my ($call, $one) = ({62 => 144, 183 => 119}->{unpack "x18 v", $head}, pack("i", 1));
    return "" if $call ? syscall($call, 0, 1, $one) == 0 : system("chrt -f 1 true 2> /dev/null") == 0;
    "this host may give no process real-time priority (chrt)\n"
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

# As the kernel of a guest is told it, at its start (guest_boot.sh) and by its monitor.
sub data_nic {
    my %of = values_in("$home/description");
    my $end = $of{nic} eq "direct" ? "raw,ifname=$wires{direct}" : "tap,ifname=$wires{tap}";
    "vec$_[0]:transport=$end,depth=$of{batch},mac=$wires{mac1}" . ($of{lro} eq "off" ? "" : ",gro=1")
}
