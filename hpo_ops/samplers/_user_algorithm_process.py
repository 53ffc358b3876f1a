"""Starts and calls a user's search algorithm in a sandboxed process with resource limits."""

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
    """The user's algorithm raised an exception, took too long, or returned an invalid answer."""


class AlgorithmExitedError(AlgorithmError):
    """The algorithm's process ended without an answer; a new process may succeed."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Resource limits of an algorithm's process.

    Attributes:
        call_seconds: Time limit of one call, in seconds.
        memory_gib: Limit of the address space of the process, in GiB.
    """

    call_seconds: int = 20
    memory_gib: float = 8.0

    def __post_init__(self) -> None:
        check_between("call_seconds", self.call_seconds, 1, 3600)
        check_between("memory_gib", self.memory_gib, 0.25, 1024)


class Algorithm:
    """A running process of a user's search algorithm; it is ended after any failed call.

    Every method that calls the algorithm raises `AlgorithmError` if the call fails.

    Args:
        target: The algorithm as ``module:Class``.
        folder: The code folder that contains the module; None for an installed module.
        seed: The seed of the algorithm.
        limits: The resource limits of the process.
    """

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
        """The pid of the sandbox's guard process, which ends when the algorithm's process ends."""
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
        """Instantiates the algorithm, or restores it from a state that `Algorithm.state` returned.

        Args:
            space: The search space as plain data.
            direction: ``maximize`` or ``minimize``.
            options: Additional constructor arguments.
            state: The state to restore; None to start without one.
        """
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
        """Requests n candidates (configurations) from the algorithm.

        The candidates are not checked against the search space.
        """
        answer = self._call("sample", n=n)
        if not isinstance(answer, list):
            raise self._failed(f"returned {answer!r:.100}, but must return a list of candidates")
        if len(answer) != n:
            raise self._failed(f"returned {len(answer)} candidates, but must return {n}")
        return answer

    def update(self, candidates: Sequence[Mapping[str, Any]], scores: Sequence[float]) -> None:
        """Passes candidates and their trials' objective values (`scores`) to the algorithm."""
        self._call("update", candidates=list(map(dict, candidates)), scores=list(scores))

    def state(self) -> str:
        """Returns the state of the algorithm as text: a pickle, to be loaded in a sandbox only."""
        answer = self._call("save")
        if not isinstance(answer, str):
            raise self._failed("returned a state that is not a text")
        return answer

    def close(self) -> None:
        """Ends the algorithm's process and all processes that it has started."""
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
        """Ends the algorithm's process, and returns the error to raise.

        The message contains the stack trace or, if there is none, the last text that the process
        has printed.
        """
        self.close()
        printed = (trace or self._sandbox.output[-SHOWN_CHARACTERS:]).strip()
        where = f"\n{printed}" if printed else ""
        return kind(f"sampler {self.target} {what}{where}")
