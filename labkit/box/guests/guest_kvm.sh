# Part of the command `guest`: what a guest has under KVM alone. `labkit doctor --guests` tries it.

kvm() { [ "$(wire accelerator)" = kvm ]; }

# The device of KVM is a group's.
groups_kvm() { if kvm; then echo "--groups=$(stat -c %g /dev/kvm)"; else echo --clear-groups; fi; }

# A worker of the kernel takes packets from the tap where there is one; it is opened by who may.
worker_kvm() { ! [ -w /dev/vhost-net ] || ! kvm || echo ",vhost=on,vhostfd=8"; }
