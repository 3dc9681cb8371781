now=all=$(guest "@$1" get cpus) many=$(guest "@$1" get vcpus) || exit
