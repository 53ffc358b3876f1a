"""Starts and calls a user's search algorithm in a sandboxed process with limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpo_ops.core.policy_options import check_between
from hpo_ops.isolation import sandbox

CHILD = Path(__file__).with_name("user_algorithm_child.py")
SHOWN_CHARACTERS = 4000
_GIB = 2**30


class AlgorithmError(ValueError):
    """The user's algorithm raised, took too long, or returned an invalid answer."""


class AlgorithmExitedError(AlgorithmError):
    """The algorithm's process ended without an answer; a new process may succeed."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Resource limits of an algorithm's process.

    Attributes:
        call_seconds: Time limit of one call.
        memory_gib: Limit of the process's address space.
    """

    call_seconds: int = 20
    memory_gib: float = 8.0

    def __post_init__(self) -> None:
        check_between("call_seconds", self.call_seconds, 1, 3600)
        check_between("memory_gib", self.memory_gib, 0.25, 1024)


class Algorithm:
    """A running algorithm process. After a failed call the process is always ended."""

    def __init__(self, target: str, *, folder: Path | None, seed: int, limits: Limits) -> None:
        self.target = target
        self._seed = seed
        self._seconds = limits.call_seconds
        self._sandbox = sandbox.Sandbox(
            CHILD,
            [str(limits.call_seconds)],
            code=folder,
            limits=sandbox.Limits(memory_bytes=int(limits.memory_gib * _GIB)),
        )

    @property
    def pid(self) -> int:
        """The pid of the guard process, which ends together with the algorithm's process."""
        return self._sandbox.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process is alive and can be called."""
        return self._sandbox.is_alive

    def start(
        self,
        *,
        space: Mapping[str, Any],
        direction: str,
        options: Mapping[str, Any],
        state: str | None,
    ) -> None:
        """Creates the algorithm, or restores it from a state that `state` returned."""
        given = {"space": space, "direction": direction, "seed": self._seed}
        self._call(
            "start",
            target=self.target,
            folder=None if self._sandbox.code is None else str(self._sandbox.code),
            given=given,
            options=dict(options),
            state=state,
        )

    def sample(self, n: int) -> list[Any]:
        """Returns n candidates of the algorithm, which are not checked against the space yet."""
        answer = self._call("sample", n=n)
        if not isinstance(answer, list):
            raise self._failed(f"returned {answer!r:.100}, but must return a list of candidates")
        if len(answer) != n:
            raise self._failed(f"returned {len(answer)} candidates, but must return {n}")
        return answer

    def update(self, candidates: Sequence[Mapping[str, Any]], scores: Sequence[float]) -> None:
        """Tells the algorithm the scores of candidates."""
        self._call("update", candidates=list(map(dict, candidates)), scores=list(scores))

    def state(self) -> str:
        """Returns the algorithm's state as text. It is a pickle: read it in a sandbox only."""
        answer = self._call("save")
        if not isinstance(answer, str):
            raise self._failed("returned a state that is not a text")
        return answer

    def close(self) -> None:
        """Ends the process and all processes that it has started."""
        self._sandbox.close()

    def _call(self, call: str, **arguments: Any) -> object:
        try:
            answer = self._sandbox.ask({"call": call, **arguments}, seconds=self._seconds)
        except TimeoutError as error:
            raise self._failed(f"took more than {self._seconds} s to {call}") from error
        except sandbox.SandboxEndedError as error:
            raise self._failed("has ended without an answer", AlgorithmExitedError) from error
        if not isinstance(answer, dict):
            raise self._failed(f"returned an invalid answer: {answer!r:.100}")
        if "error" in answer:
            trace = self._sandbox.named(str(answer.get("trace", "")))
            raise self._failed(f"could not {call}: {answer['error']}", trace=trace)
        return answer.get("value")

    def _failed(
        self, what: str, kind: type[AlgorithmError] = AlgorithmError, trace: str = ""
    ) -> AlgorithmError:
        """Ends the process and makes the error to raise, with the end of what it printed."""
        self.close()
        printed = (trace or self._sandbox.output[-SHOWN_CHARACTERS:]).strip()
        where = f"\n{printed}" if printed else ""
        return kind(f"sampler {self.target} {what}{where}")
