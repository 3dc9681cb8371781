"""The answers of the runner on a host: lines of facts, an empty line, a part of the output."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from labkit.job.state import Facts, Printed


@dataclass(frozen=True)
class Part:
    """Some bytes of one stream, and the offset of the first of them."""

    offset: int = 0
    content: bytes = b""

    @property
    def end(self) -> int:
        """The offset of what comes next."""
        return self.offset + len(self.content)


def read(answer: bytes, nonce: str) -> list[tuple[Facts, Part]]:
    """All answers that carry the nonce; what a login script printed before is passed over.

    Raises ValueError for an answer that was cut short: it can be asked for again.
    """
    # The nonce is made anew for each question, so that no output can hold it.
    _, *frames = answer.split(f"labkit-job {nonce} ".encode())
    if not frames and f"labkit-jobs {nonce}".encode() not in answer:
        raise ValueError("no answer")
    try:
        return [_frame(frame) for frame in frames]
    except LookupError as error:
        raise ValueError("a line is missing") from error


def _frame(frame: bytes) -> tuple[Facts, Part]:
    head, separator, content = frame.partition(b"\n\n")
    folder, *lines = head.decode("utf-8", "surrogateescape").split("\n")
    if lines == ["gone"]:
        return Facts(folder, gone=True), Part()
    if not separator:
        raise ValueError("the answer has no end")
    fields: dict[str, list[list[str]]] = defaultdict(list)
    for line in lines:
        name, *words = line.split()
        fields[name].append(words)
    offset, count = map(int, fields["part"][0])
    if len(content) != count:
        raise ValueError(f"{len(content)} of {count} bytes arrived")
    return _facts(folder, fields), Part(offset, content)


def _facts(folder: str, rows: Mapping[str, list[list[str]]]) -> Facts:
    boot, moment = rows["now"][0]
    # Before a job has begun, and before its command has ended, these lines are empty.
    born_boot, start, since, _, _ = rows["born"][0] or ("", "0", "0", "", "")
    (owner, *_) = rows["owner"] or ([],)  # none in the answer of an older runner
    kind, number, until, *oom = rows["main"][0] or ("", "0", "0")
    guess = kind == "code" and 128 < int(number) <= 128 + 64
    end = ("signal", int(number) - 128) if guess else (kind.replace("code", "exit"), int(number))
    return Facts(
        folder, boot=boot, now=int(moment), born_boot=born_boot, begun=int(start),
        held=frozenset(rows["held"][0]), end=end if kind else None, guessed=guess,
        ended=int(until), oom=oom == ["oom"], cause="".join(rows["why"][0]), streams=_streams(rows),
        owner=tuple(owner), since=int(since),
    )  # fmt: skip


def _streams(rows: Mapping[str, list[list[str]]]) -> dict[str, Printed]:
    full = dict(word.split(":") for word in rows["full"][0])
    streams = {}
    for name in ("out", "err"):
        files = [(int(at), int(size)) for owner, at, size in rows["file"] if owner == name]
        drops = int(full.get(name) or 0)
        size = max((at + size for at, size in files), default=0) + drops
        streams[name] = Printed(size, sum(size for _, size in files), name in full)
    return streams
