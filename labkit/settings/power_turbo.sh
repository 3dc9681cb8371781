cd /sys/devices/system/cpu || exit
if [ -e intel_pstate/no_turbo ]; then echo "no_turbo $(cat intel_pstate/no_turbo)"
elif [ -e cpufreq/boost ]; then echo "boost $(cat cpufreq/boost)"
else echo "this kernel offers no switch for turbo; the BIOS may" >&2; exit 1; fi
