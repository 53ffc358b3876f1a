"""A user's search algorithm in a sandbox: no credentials, limited memory, limited time."""

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
        """The process that guards the algorithm's, and ends together with it."""
        return self._sandbox.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can be called."""
        return self._sandbox.is_alive

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
            folder=None if self._sandbox.code is None else str(self._sandbox.code),
            given=given,
            options=dict(options),
            state=state,
        )

    def sample(self, n: int) -> list[Any]:
        """Candidates, as the algorithm gave them."""
        answer = self._call("sample", n=n)
        if not isinstance(answer, list):
            raise self._failed(f"gave {answer!r:.100}, but must give a list of candidates")
        if len(answer) != n:
            raise self._failed(f"gave {len(answer)} candidates, but {n} were asked for")
        return answer

    def update(self, candidates: Sequence[Mapping[str, Any]], scores: Sequence[float]) -> None:
        """Tells the algorithm how candidates did."""
        self._call("update", candidates=list(map(dict, candidates)), scores=list(scores))

    def state(self) -> str:
        """The algorithm as text. Only a process like this one may read it: it is a pickle."""
        answer = self._call("save")
        if not isinstance(answer, str):
            raise self._failed("gave a state that is no text")
        return answer

    def close(self) -> None:
        """Ends the process and all that it has started."""
        self._sandbox.close()

    def _call(self, call: str, **arguments: Any) -> object:
        try:
            answer = self._sandbox.ask({"call": call, **arguments}, seconds=self._seconds)
        except TimeoutError as error:
            raise self._failed(f"took more than {self._seconds} s to {call}") from error
        except sandbox.SandboxEndedError as error:
            raise self._failed("has ended without an answer", AlgorithmGoneError) from error
        if not isinstance(answer, dict):
            raise self._failed(f"gave an answer that is of no use: {answer!r:.100}")
        if "error" in answer:
            trace = self._sandbox.named(str(answer.get("trace", "")))
            raise self._failed(f"could not {call}: {answer['error']}", trace=trace)
        return answer.get("value")

    def _failed(
        self, what: str, kind: type[AlgorithmError] = AlgorithmError, trace: str = ""
    ) -> AlgorithmError:
        """The error to raise; the process is of no use after it."""
        self.close()
        printed = (trace or self._sandbox.output[-SHOWN_CHARACTERS:]).strip()
        where = f"\n{printed}" if printed else ""
        return kind(f"sampler {self.target} {what}{where}")
