"""The model of a study file, which calls the checks of single keys and of combined keys."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    ValidationError,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)

from hpo_ops.allocators import ALLOCATORS, create_allocator
from hpo_ops.config._folds_section import FoldsField, check_folds
from hpo_ops.config._metric_checks import check_metrics
from hpo_ops.config._sections import (
    Budget,
    Checkpoints,
    ConstraintField,
    Data,
    Flow,
    FunctionName,
    Metric,
    NotAFlag,
    Policy,
    PolicyField,
    SharingField,
    Stop,
)
from hpo_ops.config._space_field import SpaceField
from hpo_ops.config._strict_model import Model
from hpo_ops.config._study_changes import CHANGEABLE, OVERRIDABLE, with_changes
from hpo_ops.config._study_checks import check_flow, check_limits, check_runner, check_space
from hpo_ops.config.allocator_limits import check_allocator
from hpo_ops.config.durations import Duration
from hpo_ops.config.forecast_settings import check_curves
from hpo_ops.config.pod_sections import Pod, Resources
from hpo_ops.config.round_planning import check_rounds, trials_per_round
from hpo_ops.config.runner_registry import DEFAULT_RUNNER, find_runner, runner_names
from hpo_ops.config.study_errors import StudyError, explain
from hpo_ops.config.warm_start_section import WarmStart
from hpo_ops.core import Allocator, Goal, Scheduler
from hpo_ops.core.experiment_statistics import repeat_seed
from hpo_ops.core.search_space import Space, dump_parameter
from hpo_ops.samplers import check_sampler, is_algorithm
from hpo_ops.schedulers import SCHEDULERS, create_scheduler, why_rolling

MAX_TRIALS = 100_000
MAX_PARALLELISM = 1_000
MAX_REPEATS = 1_000

GENERIC_CEILING = 64
"""Highest parallelism of a study in a generic DAG (a DAG that runs any study from its conf)."""


DagName = Annotated[str, Field(pattern=r"^(\*|[A-Za-z0-9_.-]+)$", max_length=250)]
"""A DAG's id; ``*`` stands for all DAGs."""


def _list_runners(schema: dict[str, Any]) -> None:
    """Adds the names of all runners to the JSON Schema of the key ``runner``."""
    schema["enum"] = runner_names()


ENTERED: Mapping[str, Any] = {"entered": True}
"""Validation context for a study that is recorded in the ledger.

Checks that need the study's code folder or another package are skipped, since these may no longer
exist.
"""


class StudyConfig(Model):
    """One search: space, metric, sampler, scheduler and budget."""

    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,99}$")]
    """Name of the study and of its DAG."""
    description: str = ""
    """What the study is for; shown in Airflow."""
    code: str | None = None
    """Folder with the training code, relative to the study file; not needed if image has it."""
    image: Annotated[str, Field(pattern=r"^[\w][\w./:@-]*$")] | None = None
    """Container image, with runner: kubernetes; by default the platform's own, with torch."""
    install: bool = True
    """Whether pods install the code's packages: requirements.txt, pyproject.toml, setup.py."""
    command: Annotated[str, Field(min_length=1)]
    """Command that trains one trial, run in the code folder."""
    metric: Metric | None = None
    """The metric that the study optimises; use metrics for several."""
    metrics: tuple[Metric, ...] = ()
    """Several metrics, of which the study searches the Pareto front."""
    space: SpaceField
    constraints: tuple[ConstraintField, ...] = ()
    """Inequalities between parameters and metrics, such as width * depth <= 512."""
    sampler: PolicyField = Policy(name="tpe")
    """Proposes configurations: a short name such as tpe, or an Optuna sampler as module:Class."""
    warm_start: WarmStart | None = None
    """An earlier study whose trials the sampler knows from the start."""
    enqueue: tuple[dict[str, Any], ...] = ()
    """Sets of parameters to try first; the sampler chooses parameters that they omit."""
    scheduler: PolicyField = Policy(name="default")
    """Decides which trials run and for how long: a short name such as asha, or module:Class."""
    curves: PolicyField = Policy(name="projected")
    """Forecasts learning curves for schedulers that need it: projected, mcmc, or your own."""
    allocator: SharingField | None = None
    """Decides how many units each trial gets; without one each trial has one unit."""
    folds: FoldsField | None = None
    """Cross-validation: a number of folds, or a mapping with count, prune and retrain."""
    trials: Annotated[int, Field(ge=1, le=MAX_TRIALS), NotAFlag] = 20
    """Total number of trials."""
    parallelism: Annotated[int, Field(ge=1, le=MAX_PARALLELISM), NotAFlag] = 2
    """Slots: trials that run at the same time; with folds, folds that run at the same time."""
    max_parallelism: Annotated[int, Field(ge=1, le=MAX_PARALLELISM)] | None = None
    """The highest parallelism that can be set later; by default twice the parallelism, or the
    parallelism itself if the study is rolling or its rounds are larger than the parallelism."""
    max_trials: Annotated[int, Field(ge=1, le=MAX_TRIALS)] | None = None
    """The highest number of trials that can be set while a rolling study runs."""
    flow: Flow = Flow.ROUNDS
    """Rounds with a barrier in between, or rolling, which schedulers that pause trials need."""
    round_size: Annotated[int, Field(ge=1, le=MAX_TRIALS), NotAFlag] | None = None
    """Trials of each round, of which parallelism run at a time; by default the parallelism, or
    more if that would make more than 25 rounds."""
    budget: Budget = Budget()
    stop: Stop = Stop()
    retries: Annotated[int, Field(ge=0, le=100), NotAFlag] = 0
    """How many times a trial whose code failed is retried from its last checkpoint."""
    runner: Annotated[str, Field(json_schema_extra=_list_runners)] = DEFAULT_RUNNER
    """How trials are executed: local (processes of the Airflow worker), kubernetes (pods), or
    another installed runner."""
    resources: Resources = Resources()
    pod: Pod = Pod()
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], str] = Field(default_factory=dict)
    """Environment variables of the training; no secrets, since everyone can read them."""
    checkpoints: Checkpoints = Checkpoints()
    finalizers: tuple[FunctionName, ...] = ()
    """Your functions, module:function in the code folder, called with the result at the end."""
    grace: Duration = 30.0
    """Time that a trial has to save a checkpoint when it is paused or stopped."""
    seed: Annotated[int, Field(ge=0, lt=2**32), NotAFlag] = 0
    """Seed of every random draw of the study."""
    trial_seed: Annotated[int, Field(ge=0, lt=2**32), NotAFlag] | None = None
    """One seed for all trials, instead of a seed for each trial that is derived from seed."""
    deterministic: bool = False
    """Seed every step and use torch's deterministic algorithms; slower on GPUs."""
    data: Data = Data()
    cache: bool = True
    """Whether the reports of an identical earlier trial are reused instead of training again."""
    share: tuple[DagName, ...] = ()
    """DAGs to share scores and trials with, if their studies name this study's DAG; * for all."""
    repeats: Annotated[int, Field(ge=1, le=MAX_REPEATS), NotAFlag] = 1
    """How many times the study is run, each time with another seed: an experiment."""
    reproducible: bool = False
    """Make decisions between rounds only, so that the same seed gives the same study."""

    @model_validator(mode="before")
    @classmethod
    def _choose_flow(cls, data: Any) -> Any:
        """Chooses the rolling flow for schedulers that pause or copy trials, if no flow is set."""
        if not isinstance(data, dict) or data.get("flow") is not None or data.get("reproducible"):
            return data
        policy = data.get("scheduler")
        name = policy.get("name") if isinstance(policy, dict) else policy
        is_rolling = isinstance(name, str) and why_rolling(name) is not None
        return {**data, "flow": Flow.ROLLING} if is_rolling else data

    @field_validator("command")
    @classmethod
    def _check_command(cls, value: str) -> str:
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise ValueError(f"is {value!r}, but must be a shell command ({error})") from error
        if not words:
            raise ValueError("is empty, but must be a shell command")
        return value

    @field_validator("code")
    @classmethod
    def _check_code(cls, value: str | None) -> str | None:
        if value is not None and (not value or PurePosixPath(value) == PurePosixPath("/")):
            raise ValueError(f"is {value!r}, but must be a folder")
        return value

    @field_serializer("space")
    def _dump_space(self, space: Space) -> dict[str, Any]:
        return {name: dump_parameter(parameter) for name, parameter in space.items()}

    @model_validator(mode="after")
    def _check_policies(self, info: ValidationInfo) -> Self:
        if self._can_be_made(self.scheduler, info):
            self.create_scheduler()
        if info.context is not ENTERED:
            check_curves(self)
            sampler = self.sampler
            check_sampler(sampler.name, sampler.options, self.space, code=self.code or "")
            if len(self.objectives) > 1 and is_algorithm(sampler.name, self.code or ""):
                raise ValueError(
                    f"sampler is {sampler.name!r}, but a search algorithm supports one metric only"
                )
        return self

    @model_validator(mode="after")
    def _check_runner(self, info: ValidationInfo) -> Self:
        # The package of a recorded study's runner may no longer be installed.
        if info.context is not ENTERED or self.runner in runner_names():
            check_runner(self)
        return self

    @model_validator(mode="after")
    def _check_shares(self, info: ValidationInfo) -> Self:
        if self.allocator is not None and self._can_be_made(self.allocator, info):
            self.create_allocator()
        check_allocator(self)
        check_folds(self, most=MAX_TRIALS)
        return self

    @model_validator(mode="after")
    def _check_rounds(self, info: ValidationInfo) -> Self:
        if info.context is not ENTERED:
            check_rounds(self)
        return self

    @model_validator(mode="after")
    def _check_metrics(self) -> Self:
        check_metrics(self)
        return self

    @model_validator(mode="after")
    def _check_space(self) -> Self:
        check_space(self)
        return self

    @model_validator(mode="after")
    def _check_together(self, info: ValidationInfo) -> Self:
        check_limits(self)
        check_flow(self, has_rungs=self._has_rungs(info))
        return self

    def _has_rungs(self, info: ValidationInfo) -> bool:
        if not self.reproducible or not self._can_be_made(self.scheduler, info):
            return True
        return self.create_scheduler().rungs is not None

    @staticmethod
    def _can_be_made(policy: Policy, info: ValidationInfo) -> bool:
        """Returns whether a scheduler or allocator may be instantiated in order to check it.

        A study in the ledger must stay readable even if the class of its scheduler or allocator no
        longer exists or is no longer allowed. For a study in the ledger, only the platform's own
        policies are therefore instantiated.
        """
        return info.context is not ENTERED or policy.name in {*SCHEDULERS, *ALLOCATORS}

    def create_scheduler(self) -> Scheduler:
        """Creates the scheduler that the study names."""
        return create_scheduler(self.scheduler.name, self.scheduler.options)

    def create_allocator(self) -> Allocator | None:
        """Creates the allocator that the study names, or returns None if it names no allocator."""
        if self.allocator is None:
            return None
        return create_allocator(self.allocator.name, self.allocator.options)

    @property
    def pool(self) -> str:
        """Name of the pool (shared amount of resources) from which the study's trials lease."""
        return find_runner(self.runner).pool(self)

    @property
    def lease(self) -> float:
        """The amount, such as a number of GPUs, that a trial leases from the pool for each unit.

        An allocator may assign several units, or a fraction of a unit, to a trial.
        """
        return find_runner(self.runner).lease(self)

    @property
    def goal(self) -> Goal:
        """The study's direction, size, target and deadline, which are passed to its policies."""
        return Goal(
            direction=self.objective.direction,
            trials=self.trials * self.fold_count,
            folds=self.fold_count,
            target=self.objective.target,
            deadline_seconds=self.budget.wall,
            at_barrier=self.reproducible,
        )

    @property
    def objectives(self) -> tuple[Metric, ...]:
        """The metrics that the study optimises, one or more."""
        return self.metrics if self.metric is None else (self.metric,)

    @property
    def objective(self) -> Metric:
        """The first metric, which schedulers compare and by which trials are ranked."""
        return self.objectives[0]

    @property
    def fold_count(self) -> int:
        """The number of folds of each trial; 1 if the study has no cross-validation."""
        return 1 if self.folds is None else self.folds.count

    @property
    def is_retrained(self) -> bool:
        """Whether the best configuration is trained on all data at the end of the study."""
        return self.folds is not None and self.folds.retrain

    @property
    def most_trials(self) -> int:
        """The highest value to which ``trials`` can be changed while the study runs."""
        return max(self.trials, self.max_trials or 0)

    @property
    def mapped_trials(self) -> int:
        """The number of dynamically mapped Airflow tasks for the trials of a rolling study."""
        return self.most_trials * self.fold_count

    @property
    def ceiling(self) -> int:
        """The highest parallelism that can be set without changing the study's DAG.

        It is ``max_parallelism`` if the study sets it. By default it is twice the parallelism, but
        only the parallelism if the study is rolling or a round has more trials than that: further
        tasks would then occupy workers only to wait.
        """
        if self.max_parallelism is not None:
            return self.max_parallelism
        has_queue = self.flow is Flow.ROLLING or trials_per_round(self) > self.parallelism
        return self.parallelism if has_queue else 2 * self.parallelism

    def change(self, changes: Mapping[str, Any], *, source: str, is_running: bool) -> StudyConfig:
        """Returns a copy of the study with some keys changed.

        Args:
            changes: New values by dotted key, such as ``{"budget.wall": "1h"}``.
            source: Origin of the changes, for error messages.
            is_running: Whether the study is running, so that only `CHANGEABLE` keys may change.

        Raises:
            StudyError: A key may not be changed, or a value is not allowed.
        """
        keys = CHANGEABLE if is_running else OVERRIDABLE
        data = with_changes(self.to_dict(), changes, keys=keys, source=source)
        data["max_parallelism"] = self.ceiling
        if is_running and self.flow is Flow.ROLLING:
            data["max_trials"] = self.most_trials
        try:
            return StudyConfig.model_validate(data, context=ENTERED)
        except ValidationError as error:
            raise StudyError(source, explain(error, StudyConfig)) from error

    def as_repeat(self, repeat: int) -> StudyConfig:
        """Returns a copy of the study for one repeat of an experiment, with the repeat's seed."""
        return self.model_copy(update={"seed": repeat_seed(self.seed, repeat)})

    def get(self, key: str) -> Any:
        """Returns the value of a dotted key as JSON data; None if the key's section is null."""
        value: Any = self.to_dict()
        for part in key.split("."):
            value = None if value is None else value[part]
        return value

    def changeable(self) -> dict[str, Any]:
        """Returns the current values of the keys that can be changed while the study runs."""
        return {key: self.get(key) for key in CHANGEABLE}

    def to_dict(self) -> dict[str, Any]:
        """Returns the study as a mapping that `parse_study` accepts."""
        return self.model_dump(mode="json")

    def to_json(self) -> str:
        """Returns the study as JSON text that `read_entered` accepts."""
        return json.dumps(self.to_dict(), separators=(",", ":"))
