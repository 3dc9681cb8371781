-r "/proc/$$/task/$$/children" && open(F, "/proc/self/exe") && read(F, $_, 20) == 20 or exit 1;
%n = (62, 157, 183, 167, 243, 167, 258, 167, 3, 172, 40, 172, 21, 171);
$n = $n{unpack "x18 v", $_} or exit 1; $b = pack "i", 0;
syscall($n, 36, 1, 0, 0, 0) == 0 && syscall($n, 37, $b, 0, 0, 0) == 0 && unpack("i", $b) == 1
or exit 1; exec "sh";
