"""A guest of KVM against a container, in five tests: how much does the worst of them lose?"""

from labkit.studies._places import TOPOLOGY, beside_its_host, place
from labkit.study import Study
from labkit.workloads.five_tests import FiveTests

# netperf and redis-benchmark keep the client busy.
ASKING = ("busy client",)
SIDES = {"Docker": "Native-Docker", "KVM": "VM"}

study = Study(
    name="kvm_docker_report",
    title="KVM against Docker: the report that others wrote",
    question="How much does a KVM guest lose against a container, in the worst of five tests?",
    source="Ali, Agrawal and Bergamasco, Docker Containers Performance in VMware vSphere, cites a "
    "report of a third party",
    workload=FiveTests(percent=3, mebibytes=64, trials=3),
    quick={"repeats": 1, "percent": 2, "trials": 2, "mebibytes": 16},
    metric="performance", unit="1", topology=TOPOLOGY,
    conditions=tuple(
        beside_its_host(place(name, called=called), *ASKING) for called, name in SIDES.items()
    ),
)  # fmt: skip
