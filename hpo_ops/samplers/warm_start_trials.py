"""Warm start: completed trials of another study, put before a study's own in Optuna's tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna

from hpo_ops.core import Direction
from hpo_ops.core.param_fitting import fit
from hpo_ops.core.search_space import Space
from hpo_ops.samplers.distributions import to_distribution
from hpo_ops.samplers.optuna_search import Search
from hpo_ops.samplers.sampler_registry import WARM_START

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

FROM = "hpo:from"
"""User attribute of a trial that was taken: the study and the trial that it was."""
MAX_TAKEN = 10_000
MAX_LINES = 20
CONNECT_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class Source:
    """A study to start from.

    Attributes:
        name: The study, for people.
        trials: Its trials.
    """

    name: str
    trials: Sequence[FrozenTrial]


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What became of the trials of another study.

    Attributes:
        source: The other study.
        taken: How many were taken.
        left_out: Trials that were not, by the reason.
    """

    source: str
    taken: int
    left_out: dict[str, list[int]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Sentences for people."""
        lines = [f"warm start: {self.taken} trials of {self.source} are known to the sampler"]
        for reason, numbers in self.left_out.items():
            which = ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
            lines.append(f"warm start: left out {len(numbers)} ({which}): {reason}")
        more = len(lines) - MAX_LINES
        return [*lines[:MAX_LINES], f"… and {more} more reasons"] if more > 0 else lines


def open_other(url: str, *, shown: str | None = None) -> BaseStorage:
    """An Optuna storage that is there already; nothing is made or changed in it.

    Args:
        url: Its address.
        shown: Its name in messages, where the address is not for the reader.

    Raises:
        ValueError: It cannot be read. The message has no password in it.
    """
    name = shown or re.sub(r"(://[^/:]*):[^/]*@", r"\1:***@", url)
    options: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS}
    if url.startswith("sqlite"):
        path = url.partition("///")[2].partition("?")[0]
        if not Path(path).is_file():
            where = f" {path}" if shown is None else " at its address"
            raise ValueError(f"warm_start.storage is {name}, but there is no file{where}")
        options = {"timeout": CONNECT_SECONDS}
    try:
        return optuna.storages.RDBStorage(
            url, engine_kwargs={"connect_args": options}, skip_table_creation=True
        )
    except Exception as error:  # whatever a driver of the user's choice raises
        kind = type(error).__name__
        raise ValueError(f"warm_start.storage is {name}, but cannot be read ({kind})") from error


def read_source(
    storage: BaseStorage, name: str, *, shown: str, directions: Sequence[Direction]
) -> Source:
    """The trials of a study in a storage.

    Args:
        storage: The storage.
        name: The study's name in it.
        shown: The study's name for people.
        directions: Which way is better, which must be the same there.

    Raises:
        ValueError: There is no such study, or it goes another way.
    """
    try:
        study_id = storage.get_study_id_from_name(name)
    except KeyError:
        raise ValueError(f"warm_start.study is {shown!r}, but there is no such study") from None
    found = [direction.name.lower() for direction in storage.get_study_directions(study_id)]
    wanted = [direction.value for direction in directions]
    if found != wanted:
        raise ValueError(
            f"warm_start.study is {shown!r}, but its direction is {', '.join(found)}, "
            f"and this study's is {', '.join(wanted)}"
        )
    return Source(name=shown, trials=storage.get_all_trials(study_id, deepcopy=False))


def earlier(search: Search) -> Taken | None:
    """What was taken when the study was started before; None before that."""
    try:
        study_id = search.storage.get_study_id_from_name(search.name)
    except KeyError:
        return None
    found = search.storage.get_study_user_attrs(study_id).get(WARM_START)
    return None if found is None else Taken(**found)


def take(search: Search, source: Source) -> Taken:
    """Puts what fits of a study before the trials of another, once however often it is called.

    A crash in the middle leaves some of them there; the next call adds the others. The caller sees
    to it that nothing was asked for before, and that calls come one after the other.
    """
    if (done := earlier(search)) is not None:
        return done
    study = search.open()
    there = {trial.user_attrs.get(FROM) for trial in study.get_trials(deepcopy=False)}
    left_out: dict[str, list[int]] = {}
    taken = 0
    for trial in source.trials:
        params, reason = _fit(search.space, trial)
        if not reason and taken == MAX_TAKEN:
            reason = f"{MAX_TAKEN} were taken already"
        if reason:
            left_out.setdefault(reason, []).append(trial.number)
            continue
        taken += 1
        mark = f"{source.name}#{trial.number}"
        if mark not in there:
            study.add_trial(_copy(search.space, trial, params, mark))
    result = Taken(
        source=source.name, taken=len(study.get_trials(deepcopy=False)), left_out=left_out
    )
    study.set_user_attr(WARM_START, asdict(result))
    return result


def _fit(space: Space, trial: FrozenTrial) -> tuple[Mapping[str, Any], str]:
    """A trial's parameters as the space writes them, or why it is of no use."""
    if trial.state is not optuna.trial.TrialState.COMPLETE:
        return {}, "not completed"
    params, problems = fit(space, trial.params)
    return params, "; ".join(problems)


def _copy(space: Space, trial: FrozenTrial, params: Mapping[str, Any], mark: str) -> FrozenTrial:
    return optuna.trial.create_trial(
        state=trial.state,
        values=trial.values,
        params=dict(params),
        distributions={name: to_distribution(space[name]) for name in params},
        user_attrs={FROM: mark},
    )
