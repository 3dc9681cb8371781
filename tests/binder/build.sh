#!/bin/bash
# programs: docker dockerd mmdebstrap python3
# The image of binder/, built and tried without its registries: build.sh FOLDER, as root.
#
# repo2docker writes the Dockerfile and its context; Docker builds them, and every notebook runs in
# the image as user 1000 without a network. Two things are not the real ones, so nothing is said of
# them: Debian's packages stand for Ubuntu's, and a virtual environment that pip fills stands for
# conda, with Debian's Python. It needs mmdebstrap, docker.io and 3 GB in FOLDER, and leaves no
# process behind.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "${1:?where to build: build.sh FOLDER}"
work=$(cd "$1" && pwd)
certificates=/etc/ssl/certs/ca-certificates.crt
# Debian's docker.io builds without the plugin that newer clients ask for.
export PATH=/usr/sbin:/usr/bin:$PATH
export DOCKER_HOST=unix://$work/docker.sock DOCKER_BUILDKIT=1

end() {
    if [ -e "$work/docker.pid" ]; then
        kill "$(cat "$work/docker.pid")" && tail -f /dev/null --pid="$(cat "$work/docker.pid")"
    fi
}

engine() {
    dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/docker.pid" \
        --host "$DOCKER_HOST" --iptables=false --bridge=none >"$work/dockerd.log" 2>&1 &
    trap end EXIT
    for _ in {1..60}; do
        if docker version >/dev/null 2>&1; then return; fi
        sleep 1
    done
    tail "$work/dockerd.log" >&2
    return 1
}

# What this machine trusts and how its pip is set up comes along: it may reach PyPI by a mirror.
base() {
    if [ -e "$work/base.tar" ]; then return; fi
    echo "== a Debian to build on"
    packages=ca-certificates,passwd,python3,python3-venv,python3-yaml,procps
    mmdebstrap --quiet --variant=apt --include=$packages trixie "$work/half.tar" \
        --customize-hook='[ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$1/etc/"' \
        --customize-hook="cp $certificates \"\$1$certificates\""
    mv "$work/half.tar" "$work/base.tar"
}

context() {
    echo "== the Dockerfile of repo2docker"
    [ -e "$work/tool/bin/pip" ] || python3 -m venv "$work/tool"
    "$work/tool/bin/pip" install --quiet jupyter-repo2docker
    rm -rf "$work/checkout" "$work/context"
    git clone --quiet "$here/../.." "$work/checkout"
    "$work/tool/bin/python" "$here/context.py" "$work/checkout" "$work/context" labkit-debian
    cp "$here/conda.sh" "$work"/context/build_script_files/*install-2dbase-2denv-2ebash*
}

engine
base
docker import "$work/base.tar" labkit-debian >/dev/null
context
echo "== the image"
docker build --network host --progress plain --tag labkit-binder \
    --build-arg NB_USER=jovyan --build-arg NB_UID=1000 "$work/context"
echo "== the notebooks, as user 1000 with 1 CPU and 2 GB, without privileges or a network"
docker run --rm --network none --user 1000 --cpus 1 --memory 2g --memory-swap 2g --cap-drop ALL \
    --security-opt no-new-privileges labkit-binder tests/binder/in_image.sh
