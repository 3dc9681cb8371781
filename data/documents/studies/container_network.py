"""A key-value store across two hosts: on the hosts' network, a bridge, NAT, and an overlay."""

from labkit.workloads.key_value_pair import KeyValuePair

from labkit import Condition, Study
from labkit.claims import published

NETWORKS = {
    "host": "no container network: both ends use their host's own",
    "bridge": "both containers on their host's bridge, which is on the wire",
    "nat": "each container behind its host's NAT, the server's port published",
    "vxlan": "both containers on an overlay, which packs each packet into UDP",
}

study = Study(
    name="container_network",
    title="Networks of containers: host, bridge, NAT and overlay",
    question="What does an overlay network cost a key-value store?",
    source=published.published("container_network").document,
    workload=KeyValuePair(),
    metric="throughput",
    unit="1/s",
    quick={"repeats": 2},
    conditions=tuple(
        Condition(name, means=text, here=f"in namespaces: {text}", knobs={"network": name})
        for name, text in NETWORKS.items()
    ),
    claims=published.of("container_network"),
)
