"""A user's search algorithm as a process: no credentials, limited memory, limited time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpo_ops.core.options import check_between

CHILD = Path(__file__).with_name("own_child.py")
MAX_ANSWER_BYTES = 32 * 2**20
KEPT_OUTPUT_BYTES = 4000
_GIB = 2**30
_PASSED_ON = {
    "HPO_STACK_ID",
    "HPO_STACK_PART",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONPATH",
    "TMPDIR",
    "TZ",
    "VIRTUAL_ENV",
}
"""Variables that the algorithm may have; what is not named here may be a secret."""


class AlgorithmError(ValueError):
    """The user's algorithm failed, took too long, or answered what cannot be used."""


class AlgorithmGoneError(AlgorithmError):
    """The algorithm's process has ended without an answer."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an algorithm may use.

    Attributes:
        call_seconds: Time for one call.
        memory_gib: Address space of its process.
    """

    call_seconds: int = 20
    memory_gib: float = 8.0

    def __post_init__(self) -> None:
        check_between("call_seconds", self.call_seconds, 1, 3600)
        check_between("memory_gib", self.memory_gib, 0.25, 1024)


class Algorithm:
    """A running algorithm. Whatever goes wrong in a call, the process is gone afterwards."""

    def __init__(self, target: str, *, folder: Path | None, seed: int, limits: Limits) -> None:
        self.target = target
        self._folder = folder
        self._seed = seed
        self._seconds = limits.call_seconds
        self._output = b""
        self._process = subprocess.Popen(  # noqa: S603  our own file
            [
                sys.executable,
                "-P",  # the folder of that file is none of the algorithm's business
                str(CHILD),
                str(int(limits.memory_gib * _GIB)),
                str(limits.call_seconds),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=folder or "/",
            env=_environment(os.environ),
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process, which leads a group and session of its own."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can be called."""
        if self._process.returncode is not None:
            return False
        # Looks without reaping: until then nobody else can have the number of its group.
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return ended is None

    def start(
        self,
        *,
        space: Mapping[str, Any],
        direction: str,
        options: Mapping[str, Any],
        state: str | None,
    ) -> None:
        """Makes the algorithm, or brings back the one that a state was taken of."""
        given = {"space": space, "direction": direction, "seed": self._seed}
        self._call(
            "start",
            target=self.target,
            folder=None if self._folder is None else str(self._folder),
            given=given,
            options=dict(options),
            state=state,
        )

    def sample(self, n: int) -> list[Any]:
        """Candidates, as the algorithm gave them."""
        answer: list[Any] = self._call("sample", n=n)
        if len(answer) != n:
            raise self._failed(f"gave {len(answer)} candidates, but {n} were asked for")
        return answer

    def update(self, candidates: Sequence[Mapping[str, Any]], scores: Sequence[float]) -> None:
        """Tells the algorithm how candidates did."""
        self._call("update", candidates=list(map(dict, candidates)), scores=list(scores))

    def state(self) -> str:
        """The algorithm as text. Only a process like this one may read it: it is a pickle."""
        answer: str = self._call("save")
        return answer

    def close(self) -> None:
        """Ends the process and all that it has started."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _call(self, call: str, **arguments: Any) -> Any:
        until = time.monotonic() + self._seconds
        line = json.dumps({"call": call, **arguments}).encode() + b"\n"
        try:
            answer = json.loads(self._exchange(line, until))
        except TimeoutError as error:
            raise self._failed(f"took more than {self._seconds} s to {call}") from error
        except (OSError, EOFError) as error:
            raise self._failed("has ended without an answer", AlgorithmGoneError) from error
        if "error" in answer:
            raise self._failed(f"could not {call}: {answer['error']}", trace=answer["trace"])
        return answer["value"]

    def _exchange(self, line: bytes, until: float) -> bytes:
        """Writes a line and reads one, and what is printed meanwhile."""
        calls, answers = self._process.stdin, self._process.stdout
        printed = self._process.stderr
        if calls is None or answers is None or printed is None:
            raise EOFError
        answer = b""
        while not answer.endswith(b"\n"):
            left = until - time.monotonic()
            readable, writable, _ = select.select(
                [answers, printed], [calls] if line else [], [], max(left, 0)
            )
            if not readable and not writable:
                raise TimeoutError
            if writable:
                line = line[os.write(calls.fileno(), line[: select.PIPE_BUF]) :]
            if printed in readable:
                self._output += os.read(printed.fileno(), 2**16)
                self._output = self._output[-KEPT_OUTPUT_BYTES:]
            if answers in readable:
                part = os.read(answers.fileno(), 2**20)
                answer += part
                if not part or len(answer) > MAX_ANSWER_BYTES:
                    raise EOFError
        return answer

    def _failed(
        self, what: str, kind: type[AlgorithmError] = AlgorithmError, trace: str = ""
    ) -> AlgorithmError:
        """The error to raise; the process is of no use after it."""
        self.close()
        printed = (trace or self._output.decode(errors="replace")).strip()
        where = f"\n{printed}" if printed else ""
        return kind(f"sampler {self.target} {what}{where}")


def _environment(base: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in base.items() if name in _PASSED_ON}
    # The order of a set must not differ between the process that ended and the one after it.
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
