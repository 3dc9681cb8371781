"""fio: how many small random reads and writes a second a place gets from a disk."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from labkit.errors import BadInput, ResultsError
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.probes import cpu_time
from labkit.runs.capacity import Capacity, capacity, smallest
from labkit.settings._fields import cpu_list
from labkit.workload import Sample, Workload, knob
from labkit.workloads import _compiled
from labkit.workloads._sections import parted, read_object

PROGRAMS = ("fio",)

LOADS = {
    "read": ("--rw=randread", "--iodepth=16"),
    "write": ("--rw=randwrite", "--iodepth=16"),
    "mixed": ("--rw=randrw", "--rwmixread=70", "--iodepth=32"),
}
"""The document's three, each by as many jobs; the depth is of each job."""
DOCUMENT_MEBIBYTES = 10_240
FITTING_MEBIBYTES, DISK_SHARE = 128, 0.4
"""Enough for any cache of a device to matter little, and soon written; or this much of the disk."""
LAID_OUT_RATE = 30
"""MiB a second, to foretell how long it takes to lay the file out."""
LEAVES = "fewer mebibytes need less disk"
DIRECT = beside(__file__, "fio_direct.sh")


@dataclass(frozen=True)
class Fio(Workload):
    """A file is written once, then read, written and both, 4 KiB at a random place at a time.

    I/O is direct, past the kernel's cache. `mebibytes` 0 takes what fits all places; `limit` is the
    most operations a second that each load may do, 0 for no limit.
    """

    roles = ("server",)
    loop = "closed"
    measures = ("max iops", "cpu per io", "latency p99", *cpu_time.MEASURES)
    here = _compiled.PROGRAMS
    ours = ("fio", "watch_cpus")
    programs = ("fio",)
    needs = ("fio",)

    mebibytes: int = knob(0, 0, 1 << 24)
    duration: int = knob(4, 1, 86_400)
    jobs: int = knob(8, 1, 1024)
    limit: int = knob(0, 0, 10**9)
    pin: str = ""
    """The CPUs that all of its threads are kept on (the document's taskset); empty for all."""

    def __post_init__(self) -> None:
        if self.pin:
            cpu_list(self.pin)
        if 0 < self.limit < self.jobs:
            raise BadInput(f"fio: a limit of {self.limit} leaves nothing for each of {self.jobs}")

    @property
    def size(self) -> int:
        """Of the file, in MiB."""
        return self.mebibytes or FITTING_MEBIBYTES

    @property
    def disk(self) -> int:
        """KiB that the file needs."""
        return self.size << 10

    @property
    def seconds(self) -> float:
        """About how long one run takes."""
        return len(LOADS) * (self.duration + 0.5) + self.size / LAID_OUT_RATE

    def fitted(self, places: Sequence[Capacity]) -> Self:
        """With a file that the disks of all these places have room for."""
        room = int(DISK_SHARE * smallest(places).disk) >> 10
        return replace(self, mebibytes=self.mebibytes or max(1, min(FITTING_MEBIBYTES, room)))

    @property
    def scaled(self) -> str:
        """The sizes made smaller than the document's, in words."""
        return f"a file of {self.size:,} of {DOCUMENT_MEBIBYTES:,} MiB; {self.duration} s a load"

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """The room for the file, or a file system that takes direct I/O and is on a disk."""
        host = hosts["server"]
        room = capacity(host)
        if absence := _compiled.lacking():
            return absence
        if self.size > room.disk >> 10:
            return (
                f"{host.name} has {room.disk >> 10} MiB free in {room.folder}, and the file "
                f"takes {self.size}: fewer mebibytes fit"
            )
        trial = host.run("sh", "-c", DIRECT, "direct", room.folder)
        kind = trial.stdout.strip()
        if not trial.ok or kind == "tmpfs":
            reason = "it is in memory, not on a disk" if trial.ok else trial.stderr.strip()
            return f"{room.folder} of {host.name} ({kind}) takes no direct I/O: {reason}"
        return ""

    def run(self, hosts: Mapping[str, Host]) -> str:
        """Lay the file out, then put each load on it; the file is removed at the end."""
        host = hosts["server"]
        room = capacity(host)
        load = self if self.mebibytes else self.fitted([room])

        def words(at: dict[str, str]) -> list[str]:
            file = host.check("mktemp", f"{room.folder}/labkit-fio.XXXXXXXX").strip()
            watcher = [at["watch_cpus"], "fio", str(_compiled.LOOK_MILLISECONDS)]
            return [*_compiled.removing(file), *watcher, *load.words(file)]

        programs = {"watch_cpus": _compiled.compiled("watch_cpus", "-static")}
        longest = 120 + 10 * load.seconds
        text = _compiled.asked_with(host, "fio", programs, words, longest, LEAVES)
        return f"=== asked ===\nfolder={room.folder} mebibytes={load.size}\n{text}"

    def words(self, file: str) -> list[str]:
        """The command: what holds for all loads, then each of them."""
        pin = [f"--cpus_allowed={self.pin}"] if self.pin else []
        command = [
            "fio", *pin, "--output-format=json", f"--filename={file}", f"--size={self.size}m",
            "--direct=1", "--ioengine=libaio", "--thread", "--group_reporting",
            "--randrepeat=0", "--norandommap",
            "--name=layout", "--rw=write", "--bs=1m", "--iodepth=4", "--refill_buffers",
            "--end_fsync=1",
        ]  # fmt: skip
        cap = [f"--rate_iops={self.limit // self.jobs}"] if self.limit else []
        for name, kind in LOADS.items():
            command += [
                f"--name={name}", "--stonewall", "--new_group", *kind, "--bs=4k",
                f"--numjobs={self.jobs}", "--time_based", f"--runtime={self.duration}", *cap,
            ]  # fmt: skip
        return command

    @staticmethod
    def parse(text: str) -> list[Sample]:
        """Operations a second of each load, those of reads once more as the study's, and costs."""
        parts = parted(text, "asked", "fio", "cpu time")
        jobs = {str(job.get("jobname")): job for job in jobs_of(parts["fio"])}
        if missing := [name for name in LOADS if name not in jobs]:
            raise ResultsError(f"fio: the run did not finish: no {', '.join(missing)}")
        samples = [sample for name in LOADS for sample in _load(name, jobs[name])]
        reads = next(sample for sample in samples if sample.metric == "max iops [load=read]")
        return [replace(reads, metric="max iops"), *samples, *cpu_time.samples(parts["cpu time"])]


def jobs_of(text: str) -> list[dict[str, Any]]:
    """The jobs in fio's output, below any warnings; one that failed is refused."""
    problem = "fio: its output cannot be read"
    jobs = read_object(text[text.find("{") :], problem).get("jobs")
    if not jobs or not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise ResultsError(problem, said=text[-300:])
    for job in jobs:
        if job.get("error"):
            name, code = job.get("jobname", "a job"), job["error"]
            raise ResultsError(f"fio: {name} ended with error {code}")
    return jobs


def _load(name: str, job: Mapping[str, Any]) -> Iterator[Sample]:
    kinds = [job[kind] for kind in ("read", "write") if job[kind]["total_ios"]]
    if not kinds:
        raise ResultsError(f"fio: load {name} did nothing")
    count = sum(kind["total_ios"] for kind in kinds)
    # Shares of the time of all jobs together, in percent.
    busy = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] * 1000
    slow = max(kind["clat_ns"]["percentile"]["99.000000"] for kind in kinds) / 1000
    figures = {
        "max iops": ("1/s", sum(kind["iops"] for kind in kinds)),
        "cpu per io": ("us", busy / count),
        "latency p99": ("us", slow),
    }
    for metric, (unit, value) in figures.items():
        yield Sample.single(f"{metric} [load={name}]", unit, value)
