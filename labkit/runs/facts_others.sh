LINE_END='
'
f machine "$(uname -m)"
f system "$(. /etc/os-release 2>/dev/null && echo "$PRETTY_NAME")"
file boot /proc/sys/kernel/random/boot_id
f network "$(readlink /proc/self/ns/net 2>/dev/null)"
f cpus "$(getconf _NPROCESSORS_ONLN 2>/dev/null || nproc)"
get /proc/meminfo; f memory "${said#MemTotal:}"
get /proc/cmdline; boot=; set -f
for word in $said; do case $word in
  mitigations[.=_]*|isolcpus[.=_]*|nohz[.=_]*|rcu_nocbs[.=_]*|idle[.=_]*|intel_idle[.=_]*|\
  processor[.=_]*|intel_pstate[.=_]*|amd_pstate[.=_]*|transparent_hugepage[.=_]*|hugepages[.=_]*|\
  hugepagesz[.=_]*|numa_balancing[.=_]*|iommu[.=_]*|intel_iommu[.=_]*|amd_iommu[.=_]*|tsc[.=_]*|\
  clocksource[.=_]*|nosmt|nosmt[.=_]*|maxcpus[.=_]*|irqaffinity[.=_]*|preempt[.=_]*)
    boot="$boot $word" ;;
esac; done; set +f
f booted_with "$boot"
file governor /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
file huge_pages /sys/kernel/mm/transparent_hugepage/enabled
cd /sys/devices/system/cpu/vulnerabilities 2>/dev/null && for v in *; do
  file "mitigation $v" "$v"; done
cd /sys/class/net 2>/dev/null && for n in *; do
  d=; [ ! -e "$n/device/driver" ] || d=$(readlink "$n/device/driver" 2>/dev/null)
  get "$n/mtu"; mtu=$said; get "$n/speed"
  f "nic $n" "driver=${d##*/} mtu=$mtu speed=$said"
done
for program; do
  command -v "$program" >/dev/null || continue
  case $program in ping|netperf) said=$("$program" -V 2>&1) ;;
    Xvnc) said=$("$program" -version 2>&1 | grep -m 1 .) ;;
    *) said=$("$program" --version 2>&1) ;;
  esac </dev/null
  f "version $program" "${said%%$LINE_END*}"
done
f now "$(date -u +%s.%N)"
