"""How long a container takes from its start to its end, by five ways to run one."""

from labkit.workloads.container_start import ContainerStart

from labkit import Condition, Study
from labkit.claims import published

RUNTIMES = {
    "crun": "crun, in C",
    "runc": "runc, in Go, which Docker calls",
    "runsc": "gVisor's sandbox, on the platform ptrace",
    "podman": "podman, which has no daemon, and calls crun",
    "docker": "Docker: by its daemon, containerd and runc",
}

study = Study(
    name="container_start",
    title="Starting a container: docker, podman, crun, runc, runsc",
    question="What does it take to start a container?",
    source=published.published("container_start").document,
    workload=ContainerStart(),
    metric="time taken",
    unit="s",
    quick={"repeats": 2},
    conditions=tuple(
        Condition(name, means=text, here=f"{text}; it runs `true`", knobs={"runtime": name})
        for name, text in RUNTIMES.items()
    ),
    claims=published.of("container_start"),
)
