"""Containers by runc, and by gVisor's runsc on ptrace: starting, calling the kernel, computing."""

from labkit import Command, Condition, Study
from labkit.claims import published

TESTS = {
    "start": "true",
    "calls": "dd if=/dev/zero of=/dev/null bs=1 count=60000 2> /dev/null",
    "cpu": "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done",
}
RUNTIMES = {
    "runc": "runc run",
    "runsc": "runsc --platform=ptrace --network=none --ignore-cgroups run",
}
BUNDLE = "${HOME:-/root}/.cache/labkit-gvisor/TEST"
# A container of busybox alone, made once for each test.
MADE = f"""
[ ! -e "{BUNDLE}/ready" ] || exit 0
mkdir -p "{BUNDLE}/rootfs/bin" && cd "{BUNDLE}" && rm -f config.json && runc spec &&
cp "$(command -v busybox)" rootfs/bin/ && ln -sf busybox rootfs/bin/sh &&
ln -sf busybox rootfs/bin/dd && ln -sf busybox rootfs/bin/true &&
sed -i 's/"terminal": true/"terminal": false/; s#^\t\t\t"sh"#\t\t\t"sh", "-c", "SCRIPT"#' config.json &&
touch ready
"""  # noqa: E501


def condition(runtime: str, test: str) -> Condition:
    """One test under one runtime; its container is made before, and not measured."""
    script, bundle = TESTS[test], BUNDLE.replace("TEST", test)
    made = MADE.replace("TEST", test).replace("SCRIPT", script)
    words = ("sh", "-c", f'exec {RUNTIMES[runtime]} --bundle "{bundle}" labkit-$$')
    return Condition(
        f"{runtime} [test={test}]",
        means=f"{test}, in a container by {runtime}",
        here=f"busybox: {script}",
        knobs={"words": words, "prepare": made},
    )


study = Study(
    name="gvisor",
    title="A sandbox around a container: what gVisor costs",
    question="What does it cost to put a sandbox between a container and the kernel?",
    source=published.published("gvisor").document,
    workload=Command(times=3),
    metric="time taken",
    unit="s",
    quick={"repeats": 2},
    conditions=tuple(condition(runtime, test) for test in TESTS for runtime in RUNTIMES),
    claims=published.of("gvisor"),
)
