#!/usr/bin/perl
# Waits in the guest for NICs that are plugged in. Each takes name and address of the one for
# test traffic, which is then out of use. It starts no program, which would take a guest most of the
# time of a change. Numbers of calls are those of <linux/sockios.h>.
use strict;
my ($get_flags, $set_flags, $set_address, $set_broadcast, $set_mask, $set_name) =
    (0x8913, 0x8914, 0x8916, 0x891a, 0x891c, 0x8923);
open(STDOUT, ">", "/dev/console") && open(STDERR, ">&", \*STDOUT) or exit 1;
$| = 1;
my $links = whole("/run/labkit/links");
my ($address, $prefix) = $links =~ m{^addr add ([\d.]+)/(\d+) dev vec1$}m or die "labkit: no address of vec1\n";
my ($peer) = whole("/run/labkit/peer") =~ /([\d.]+)/;
socket(my $kernel, 2, 2, 0) or die "labkit: no socket: $!\n";

sub whole { open(my $file, "<", $_[0]) or die "labkit: $_[0]: $!\n"; local $/; <$file> }
sub number { pack("C4", split /\./, $_[0]) }
sub of_inet { pack("S n a4 x8", 2, 0, $_[0]) }

sub told {
    my ($call, $name, $more) = @_;
    my $request = pack("a16 a24", $name, $more // "");
    ioctl($kernel, $call, $request) or die "$name: $!\n";
    substr($request, 16)
}

sub turn {
    my ($name, $on) = @_;
    my $flags = unpack("S", told($get_flags, $name));
    told($set_flags, $name, pack("S", $on ? $flags | 1 : $flags & ~1));
}

# in_place_of OLD, NEW: what vec1 is now is called OLD, and NEW becomes vec1
sub in_place_of {
    my ($old, $new) = @_;
    turn("vec1", 0);
    told($set_name, "vec1", pack("a16", $old));
    turn($new, 0);
    told($set_name, $new, pack("a16", "vec1"));
    told($set_address, "vec1", of_inet(number($address)));
    told($set_mask, "vec1", of_inet(pack("N", 0xffffffff << (32 - $prefix) & 0xffffffff)));
    # The kernel has made up one, which the first NIC has not.
    told($set_broadcast, "vec1", of_inet(pack("N", 0)));
    turn("vec1", 1);
}

sub sum {
    my $sum = 0;
    $sum += $_ for unpack("n*", $_[0]);
    $sum = ($sum & 0xffff) + ($sum >> 16) while $sum >> 16;
    ~$sum & 0xffff
}

# A port of a switch that has just come up may drop who asks for the peer's address, and the kernel
# asks again after a second: unless it forgets that it has asked (arp(7): SIOCDARP).
sub forget_peer { ioctl($kernel, 0x8953, my $of = of_inet(number($peer)) . pack("x36 a16", "vec1")) }

# The switch has to learn where the guest is now: an echo, every 20 ms for 5 s.
sub reaches_peer {
    socket(my $echo, 2, 3, 1) or return 0;
    for my $tries (1 .. 250) {
        forget_peer() unless $tries % 5;
        my $asked = pack("C C n n n", 8, 0, 0, $$ & 0xffff, $tries);
        substr($asked, 2, 2) = pack("n", sum($asked));
        send($echo, $asked, 0, of_inet(number($peer)));
        my $left = 0.02;
        while ($left > 0) {
            my $bits = "";
            vec($bits, fileno($echo), 1) = 1;
            (my $found, $left) = select($bits, undef, undef, $left);
            last unless $found > 0;
            my $from = recv($echo, my $said, 2048, 0);
            my $inner = substr($said, 4 * (ord($said) & 15));
            my ($type, undef, undef, $id) = unpack("C C n n", $inner);
            return 1 if $from && $type == 0 && $id == ($$ & 0xffff) && index($from, number($peer)) == 4;
        }
    }
    0
}

sub take {
    my ($new) = @_;
    if (!eval { in_place_of("unused$new", "vec$new"); 1 }) {
        eval { in_place_of("vec$new", "unused$new") };
        reaches_peer();
        return "cannot be used";
    }
    return "up" if reaches_peer();
    eval { in_place_of("vec$new", "unused$new") };
    "does not reach $peer"
}

# Their numbers rise; whatever else happens to a link is told here, too (rtnetlink(7): RTM_NEWLINK,
# and in it IFLA_IFNAME).
socket(my $news, 16, 3, 0) or die "labkit: no netlink: $!\n";
bind($news, pack("S S L L", 16, 0, 0, 1)) or die "labkit: no netlink: $!\n";
my $last = 1;
while (1) {
    defined recv($news, my $said, 65536, 0) or next;
    while (length $said >= 32) {
        my ($length, $type) = unpack("L S", $said);
        last if $length < 16;
        heard(substr($said, 32, $length - 32)) if $type == 16 && $length > 32;
        $said = after($said, $length);
    }
}

sub after { my $to = ($_[1] + 3) & ~3; $to < length $_[0] ? substr($_[0], $to) : "" }

sub heard {
    my ($rest) = @_;
    while (length $rest >= 4) {
        my ($size, $kind) = unpack("S S", $rest);
        last if $size < 4;
        my $text = unpack("Z*", substr($rest, 4, $size - 4));
        $rest = after($rest, $size);
        next unless $kind == 3 && $text =~ /^vec(\d+)$/ && $1 > $last;
        $last = $1;
        print "labkit: nic $last ", take($last), "\n";
    }
}
