# programs: findmnt linux.uml qemu-system-x86_64 setpriv taskset
# Part of the command `guest`: what a guest is made of, and how its kernel is started.

boot() {
    cpus=$(value_of "$home/running" cpus)
    memory=$(value_of "$home/running" memory)
    if [ "$(wire accelerator)" = uml ]; then boot_uml; else boot_qemu; fi
}

disks() { sed -n 's/^disk[0-9]*=//p' "$home/wires"; }

device_of() { name=${1##*/}; echo "${name%.*}"; }

show_disks() {
    disks | while read -r file format _; do
        echo "$(device_of "$file") $format $file"
    done
}

# A copy on write stands before the file that it is a copy of.
disks_uml() {
    disks | while read -r file format _; do
        [ "$format" != cow ] || file=$file,${file%.cow}.base
        echo "$(device_of "${file%,*}")=$file"
    done
}

disks_qemu() {
    disks | while read -r file format rate drive thread; do
        name=$(device_of "$file") limit=
        [ "$rate" = 0 ] || limit=,throttling.iops-total=$rate
        [ -z "$thread" ] || { echo "-object iothread,id=of-$name" && thread=,iothread=of-$name; }
        echo "-drive if=none,id=$name,file=$file,format=$format,$drive$limit"
        echo "-device virtio-blk-pci,drive=$name,serial=$name$thread"
    done
}

# The file is executable, and gone from its folder as soon as it is made.
backing() {
    at=$(wire backing)
    case ",$(findmnt -n -o OPTIONS -T "$at" 2> /dev/null)," in
        *,noexec,* | *,ro,* | ,,) echo /tmp ;;
        *) echo "$at" ;;
    esac
}

# What keeps its wake-ups stands before its kernel's C library (waking.py), as does what it needs on
# CPUs with AMX.
waking() {
    if [ "$(value_of "$home/running" wakeups)" = kept ]; then
        echo "env LD_PRELOAD=$awake"
    elif grep -qs amx_tile /proc/cpuinfo; then
        echo "env LD_PRELOAD=${awake%/*}/registers.so"
    fi
}

# It has no rights but to read raw frames, so that what it shares with this host stays as it is.
# What its kernel skips is a race of ways to compute RAID 6, a second long at each start.
boot_uml() {
    # shellcheck disable=SC2046
    exec env -i HOME=/tmp TMPDIR="$(backing)" PATH="$PATH" \
        taskset -c "$cpus" chrt "$(scheduling "$home/running")" "$(priority "$home/running")" \
        setpriv --reuid="$user" --regid="$user" --clear-groups \
        --inh-caps=-all,+net_raw --ambient-caps=-all,+net_raw \
        $(waking) linux.uml mem="$memory" root=/dev/root rootfstype=hostfs rootflags=/ ro \
        init="$home/init" con=null con0=null,fd:1 ssl=null quiet \
        initcall_blacklist=raid6_select_algo pty.legacy_count=0 $(disks_uml) \
        "uml_dir=$home/run/" umid=monitor \
        "vec0:transport=raw,ifname=$(wire control),depth=128,gro=1,mac=$(wire mac0)" \
        "$(quick nic)"
}

nic() { echo "-netdev tap,id=$1,ifname=$2,script=no,downscript=no$5 -device $4,netdev=$1,mac=$3,romfile="; }

# In KiB. QEMU before 9.0 overlooks some of what an emulated CPU writes while its guest moves, and the
# guest runs on with old memory: where memory is whole 256 KiB, it is searched in strides that leave
# the CPU's translations as they were. Memory of any other size is searched page by page.
ram_qemu() {
    if [ "$accelerator" = kvm ]; then echo $((${memory%M} * 1024)); else echo $((${memory%M} * 1024 - 8)); fi
}

# NUMA nodes as the guest sees them, of so many of its CPUs each; the last has what is left.
nodes_qemu() {
    each=$(value_of "$home/running" per_node) && [ "$each" != all ] || return 0
    many=$(value_of "$home/running" vcpus) left=$(ram_qemu) first=0
    while [ "$first" -lt "$many" ]; do
        last=$((first + each - 1)) size=$((${memory%M} * each / many))
        size=$((size * 1024))
        if [ "$last" -ge $((many - 1)) ]; then last=$((many - 1)) size=$left; fi
        echo "-object memory-backend-ram,id=node$first,size=${size}k"
        echo "-numa node,cpus=$first-$last,memdev=node$first"
        left=$((left - size)) first=$((last + 1))
    done
}

# What its host can take from it, or lock, is a file that its processes share (guest memory).
memory_qemu() {
    [ -n "$(wire root)" ] && [ "$(value_of "$home/running" per_node)" = all ] || return 0
    echo "-machine memory-backend=ram -object memory-backend-file,id=ram,size=$(ram_qemu)k,mem-path=$(backing),share=on"
}

files_qemu() {
    [ -n "$(wire root)" ] || return 0
    echo "-fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"
    echo "-device virtio-9p-pci,fsdev=host,mount_tag=host"
}

# What comes by post-copy has its page faults handled by QEMU itself (userfaultfd(2)).
boot_qemu() {
    cat "$(wire image)" "$home/run/own.cpio" > "$home/initrd" || fail "cannot make its first root"
    accelerator=$(wire accelerator)
    worker=$(worker_kvm)
    [ -z "$worker" ] || exec 8<> /dev/vhost-net
    [ "$accelerator" = kvm ] || accelerator=tcg,thread=multi
    # shellcheck disable=SC2046
    exec env -i HOME=/tmp TMPDIR=/tmp PATH="$PATH" \
        taskset -c "$cpus" chrt "$(scheduling "$home/running")" "$(priority "$home/running")" \
        setpriv --reuid="$user" --regid="$user" "$(groups_kvm)" \
        --inh-caps="-all$rights" --ambient-caps="-all$rights" \
        qemu-system-x86_64 -name "${home##*/},debug-threads=on" -accel "$accelerator" -machine q35 -cpu max \
        -m "$(ram_qemu)k" -smp "$(value_of "$home/running" vcpus)" -nodefaults -no-user-config \
        -display none -serial stdio -kernel "$(wire kernel)" -initrd "$home/initrd" \
        -append "$(wire kernel_words)" \
        -qmp "unix:$home/run/qmp,server=on,wait=off" -qmp "unix:$home/run/watched,server=on,wait=off" \
        $incoming -device virtio-rng-pci $(nodes_qemu) $(memory_qemu) $(disks_qemu) $(files_qemu) \
        $(nic control "$(wire control_tap)" "$(wire mac0)" virtio-net-pci) \
        $(nic data "$(wire tap)" "$(wire mac1)" "$(wire model)" "$worker")
}
