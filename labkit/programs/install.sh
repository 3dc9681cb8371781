#!/bin/sh
# programs: find sudo systemctl
# Installs the system packages that are missing: install.sh WHY PACKAGE...
#
# Debian and Ubuntu by apt-get, their like by dnf, zypper or apk; the names are those of the system.
# SYSTEM=no leaves the system alone. Ends with 0 also where nothing can be installed: it says
# what is missing, and the caller goes on with what the machine has. No service is started, and
# a newly installed server stays off: labkit starts its own, on addresses of its own.
#
# NON_FREE=yes also looks in all parts of the archives that the machine has (netperf is in Debian's
# non-free, and in Ubuntu's multiverse), for this one installation: the lists of the machine stay.
set -eu
why=$1
shift

by=
for tool in apt-get dnf zypper apk; do
    if command -v $tool >/dev/null; then by=$tool && break; fi
done

installed() {
    case $by in
    apt-get) [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ] ;;
    dnf | zypper) rpm -q --whatprovides "$1" >/dev/null 2>&1 ;;
    apk) apk info -e "$1" >/dev/null 2>&1 ;;
    *) false ;;
    esac
}

missing=
for package in "$@"; do installed "$package" || missing="$missing $package"; done
missing=${missing# }
if [ -z "$missing" ]; then exit 0; fi

go_on() {
    printf 'Missing %s: %s\n  %s; going on without.\n' "$why" "$missing" "$1" >&2
    exit 0
}

# Not a plain apt-get: that would start an SSH server for all the world.
as_root() {
    printf "To get them, as root: %s '%s' %s" "$0" "$why" "$missing"
}

if [ "${SYSTEM:-yes}" = no ]; then go_on 'SYSTEM=no: the system is left alone'; fi
if [ -z "$by" ]; then go_on 'No apt-get, dnf, zypper or apk: install what your system calls these'; fi
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then go_on "$(as_root)"; fi
    if ! sudo -n true 2>/dev/null; then
        if ! [ -t 0 ]; then go_on "$(as_root)"; fi
        echo "sudo will ask for your password, to install $why: $missing" >&2
    fi
    # shellcheck disable=SC2086  # one word for each package
    sudo sh "$0" "$why" $missing || go_on 'sudo did not let us'
    exit 0
fi

work=$(mktemp -d)
barrier=/usr/sbin/policy-rc.d
ours=
end() {
    rm -rf "$work"
    if [ "$ours" ]; then rm -f $barrier; fi
}
trap end EXIT
trap 'exit 130' INT TERM HUP

# Their packages start no service by themselves.
others() {
    case $by in
    dnf) dnf install -y "$@" ;;
    zypper) zypper --non-interactive install --no-recommends "$@" ;;
    apk) apk add "$@" ;;
    esac </dev/null >"$work/log" 2>&1
}

if [ "$by" != apt-get ]; then
    echo "Installing these system packages, $why: $missing" >&2
    # shellcheck disable=SC2086
    others $missing && echo 'System packages are ready.' >&2 && exit 0
    echo "They could not be installed. The last words of $by:" >&2
    tail -n 8 "$work/log" | sed 's/^/  /' >&2
    exit 0
fi

# Debian asks this file before it starts a service; 101 means no. It says so to our installation
# alone, whatever becomes of us meanwhile, and takes itself away should we have been killed.
raise_barrier() {
    if [ -e $barrier ]; then return; fi
    ours=yes
    cat >$barrier <<EOF
#!/bin/sh
if [ "\$LABKIT_SET_UP" ]; then exit 101; fi
if ! [ -d /proc/$$ ]; then rm -f "\$0"; fi
EOF
    chmod 755 $barrier
}

apt() {
    LABKIT_SET_UP=yes DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -q -y \
        -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" </dev/null >"$work/log" 2>&1
}

# A package that this release lacks would spoil the installation of all others.
known() {
    found='' lacking=''
    for package in $missing; do
        if apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]'; then
            found="$found $package"
        else
            lacking="$lacking $package"
        fi
    done
}

# Fetched within the hour, and there: a try without a network leaves a new folder and no lists.
fresh() {
    [ "$(find /var/lib/apt/lists/partial -maxdepth 0 -mmin -60 2>/dev/null)" ] &&
        [ "$(find /var/lib/apt/lists -maxdepth 1 -name '*_Packages*' 2>/dev/null)" ]
}

refresh() {
    if fresh; then return 1; fi
    echo 'Fetching the lists of system packages (apt-get update).' >&2
    apt update || true
    grep '^[EW]:' "$work/log" | head -n 3 | sed 's/^/  /' >&2 || true
}

install() {
    # shellcheck disable=SC2086
    apt install --no-install-recommends $found
}

would_install() { apt install --no-install-recommends --simulate "$@"; }

# One that would not go with what is here keeps nobody from the others.
only_what_goes() {
    # shellcheck disable=SC2086
    if would_install $found; then return 1; fi
    asked=$found found='' refused=''
    for one in $asked; do
        if would_install "$one"; then found="$found $one"; else refused="$refused $one"; fi
    done
    echo "These do not go with what is installed:$refused" >&2
    [ "$found" ]
}

# Parts that an archive has not, apt says and passes over.
with_all_parts() {
    parts='contrib non-free'
    if grep -qs '^ID=ubuntu$' /etc/os-release; then parts='universe multiverse'; fi
    sed -E -e "s/^(Components:.*\\bmain\\b.*)/\\1 $parts/" \
        -e "s/^(deb [^#]*\\bmain\\b[^#]*)/\\1 $parts /" "$1"
}

# Copies of the machine's own sources with all their parts, in a folder that goes away at the end.
look_in_non_free() {
    mkdir -p "$work/parts" "$work/lists/partial"
    chmod 755 "$work" "$work/lists"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
        /etc/apt/sources.list.d/*.sources; do
        [ -e "$file" ] || continue
        with_all_parts "$file" >"$work/parts/${file##*/}"
    done
    printf 'Dir::Etc::SourceList "/dev/null";\nDir::Etc::SourceParts "%s";\n' \
        "$work/parts" >"$work/apt.conf"
    printf 'Dir::State::Lists "%s";\n' "$work/lists" >>"$work/apt.conf"
    export APT_CONFIG="$work/apt.conf"
    echo 'Looking for them in all parts of the archives.' >&2
    apt update || true
}

known
if [ "$lacking" ] && refresh; then known; fi
if [ "$lacking" ] && [ "${NON_FREE:-no}" = yes ]; then
    look_in_non_free
    known
fi
if [ "$lacking" ]; then
    echo "Not in the package lists of this system:$lacking" >&2
    if [ "${NON_FREE:-no}" != yes ]; then
        echo '  NON_FREE=yes looks in the parts of the archives that are not free, too.' >&2
    fi
fi
if [ -z "$found" ]; then exit 0; fi

echo "Installing these system packages, $why:$found" >&2
echo '  (make ... SYSTEM=no leaves the system alone; no service is started)' >&2
raise_barrier || go_on 'This system cannot be written to'
if ! install && ! { refresh && install; } && ! { only_what_goes && install; }; then
    echo 'They could not be installed. The last words of apt-get:' >&2
    tail -n 8 "$work/log" | sed 's/^/  /' >&2
    exit 0
fi
case " $found " in *' netperf '*) update-rc.d netperf disable >/dev/null 2>&1 || true ;; esac
case " $found " in *' openssh-server '*)
    if command -v systemctl >/dev/null; then
        systemctl disable --quiet --now ssh.service ssh.socket >/dev/null 2>&1 || true
    else
        update-rc.d ssh disable >/dev/null 2>&1 || true
    fi
    echo 'The SSH server of this machine stays off; systemctl enable --now ssh turns it on.' >&2 ;;
esac
echo 'System packages are ready.' >&2
