"""Performs a warm start: copies completed trials of another study to a study in Optuna's tables.

The copies precede the study's own trials, so that the sampler uses their results from the start.
"""

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
from hpo_ops.samplers._distributions import to_distribution
from hpo_ops.samplers._sampler_registry import WARM_START
from hpo_ops.samplers.optuna_search import Search

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

FROM = "hpo:from"
"""Optuna user attribute of a copied trial: study name and number of the original trial."""
MAX_TAKEN = 10_000
MAX_LINES = 20
CONNECT_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class Source:
    """The study that a warm start copies trials from.

    Attributes:
        name: Name of the study for use in messages.
        trials: All trials of the study.
    """

    name: str
    trials: Sequence[FrozenTrial]


@dataclass(frozen=True, kw_only=True)
class WarmStartResult:
    """The result of a warm start: which trials of another study it has copied.

    Attributes:
        source: Name of the other study.
        taken: The number of copied trials.
        left_out: Numbers of the trials that were not copied, by reason.
    """

    source: str
    taken: int
    left_out: dict[str, list[int]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Returns the result as lines of text, with one line for each reason not to copy trials.

        From `MAX_LINES` lines on, the remaining reasons are only counted.
        """
        lines = [f"warm start: {self.taken} trials of {self.source} are known to the sampler"]
        for reason, numbers in self.left_out.items():
            which = ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
            lines.append(f"warm start: left out {len(numbers)} ({which}): {reason}")
        more = len(lines) - MAX_LINES
        return [*lines[:MAX_LINES], f"… and {more} more reasons"] if more > 0 else lines


def open_existing_storage(url: str, *, shown: str | None = None) -> BaseStorage:
    """Opens an existing Optuna storage for reading; creates and changes nothing in it.

    Args:
        url: The storage's URL.
        shown: Name of the storage in messages, if the messages must not contain the URL; None for
            the URL without its password.

    Raises:
        ValueError: The storage cannot be read. The message contains no password.
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
    """Reads all trials of a study in an Optuna storage.

    Args:
        storage: The storage.
        name: The study's name in the storage.
        shown: Name of the study for use in messages.
        directions: The directions that the study's metrics must have.

    Raises:
        ValueError: The study does not exist, or its metrics have other directions.
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


def find_result(search: Search) -> WarmStartResult | None:
    """Returns the result of the study's warm start, or None if it has not been completed."""
    try:
        study_id = search.storage.get_study_id_from_name(search.name)
    except KeyError:
        return None
    found = search.storage.get_study_user_attrs(study_id).get(WARM_START)
    return None if found is None else WarmStartResult(**found)


def copy_trials(search: Search, source: Source) -> WarmStartResult:
    """Copies completed trials of another study that are valid in this study's space.

    At most `MAX_TAKEN` trials are copied. The result lists the trials that were not copied.

    Idempotent: after a crash, the next call copies the remaining trials. The study must not have
    trials of its own yet, and calls for one study must not overlap.
    """
    if (done := find_result(search)) is not None:
        return done
    study = search.open()
    copied = {trial.user_attrs.get(FROM) for trial in study.get_trials(deepcopy=False)}
    left_out: dict[str, list[int]] = {}
    taken = 0
    for trial in source.trials:
        params, reason = _fit(search.space, trial)
        if not reason and taken == MAX_TAKEN:
            reason = f"{MAX_TAKEN} trials were copied already, which is the maximum"
        if reason:
            left_out.setdefault(reason, []).append(trial.number)
            continue
        taken += 1
        origin = f"{source.name}#{trial.number}"
        if origin not in copied:
            study.add_trial(_copy(search.space, trial, params, origin))
    result = WarmStartResult(
        source=source.name, taken=len(study.get_trials(deepcopy=False)), left_out=left_out
    )
    study.set_user_attr(WARM_START, asdict(result))
    return result


def _fit(space: Space, trial: FrozenTrial) -> tuple[Mapping[str, Any], str]:
    """Returns a trial's parameters as a point of the space, and a reason not to copy the trial.

    The reason is an empty text if the trial can be copied; otherwise the parameters are not valid.
    """
    if trial.state is not optuna.trial.TrialState.COMPLETE:
        return {}, "not completed"
    params, problems = fit(space, trial.params)
    return params, "; ".join(problems)


def _copy(space: Space, trial: FrozenTrial, params: Mapping[str, Any], origin: str) -> FrozenTrial:
    return optuna.trial.create_trial(
        state=trial.state,
        values=trial.values,
        params=dict(params),
        distributions={name: to_distribution(space[name]) for name in params},
        user_attrs={FROM: origin},
    )
