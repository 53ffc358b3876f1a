"""The job file: a study as one JSON object, with the keys of the Ultron-AutoML paper."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from hpo_ops.config._sections import Flow, NotAFlag
from hpo_ops.config._strict_model import Model
from hpo_ops.config._study_config import StudyConfig
from hpo_ops.config._study_loading import parse_study
from hpo_ops.config.pod_sections import Quantity
from hpo_ops.config.study_errors import StudyError, explain, shown
from hpo_ops.core import Direction

METRIC = "score"
"""Name of a job's only metric: the value that the method `score` returns."""
STRATEGIES = {"REINFORCE-BASED": "reinforce"}
"""Names of samplers by the job's strategy, for strategies that differ from the sampler's name."""

_NAME = r"[A-Za-z_]\w*"
_STUDY_KEYS = {
    "name": "jobname",
    "space": "hp_ranges",
    "sampler": "strategy",
    "trials": "num_iterations",
    "parallelism": "parallelism_fact",
    "resources.cpu": "cpu_per_pod",
    "resources.memory": "memory_per_pod",
    "resources.gpu": "gpu_per_pod",
    "resources gpu": "gpu_per_pod",
}
"""Keys of a job by the key of the study that each of them sets."""


def _as_number(value: object) -> object:
    """Strips whitespace from a number given as text; returns any other value unchanged."""
    return value.strip() if isinstance(value, str) else value


def _check_ranges(value: object) -> object:
    if not isinstance(value, dict) or not value:
        raise ValueError(f"is {shown(value)}, but must be an object of names and their values")
    for name, values in value.items():
        if not isinstance(values, list):
            raise ValueError(f".{name} is {shown(values)}, but must be a list of values")
    return value


class Job(Model):
    """A study as one JSON object: a class with a method ``score``, ranges, strategy, resources."""

    noun: ClassVar[str] = "job"

    model_classname: Annotated[str, Field(pattern=rf"^{_NAME}$")]
    """The class with the method `score`."""
    module_name: Annotated[str, Field(pattern=rf"^{_NAME}(\.{_NAME})*$")]
    """The module of the package that contains the class."""
    package_name: Annotated[str, Field(pattern=rf"^{_NAME}(\.{_NAME})*$")]
    """The package: a folder of the archive."""
    hp_ranges: Annotated[dict[str, list[Any]], BeforeValidator(_check_ranges)]
    """The values that each hyperparameter may have."""
    strategy: Annotated[str, Field(min_length=1)]
    """RANDOM, TPE, REINFORCE, another sampler's name, or a class of the archive: module:Class."""
    num_iterations: Annotated[int, Field(ge=1), NotAFlag]
    """Number of configurations to score."""
    jobname: str
    """Name of the job and of its study."""
    parallelism_fact: Annotated[int, Field(ge=1), NotAFlag]
    """Number of configurations that are scored at the same time."""
    compute: Literal["cpu", "gpu"]
    """Kind of machine."""
    file_name: Annotated[str, Field(min_length=1)]
    """The code archive: a tar.gz that is sent with the job, or is in the object store."""
    cpu_per_pod: Quantity
    """Cores of a pod."""
    memory_per_pod: Quantity
    """Memory of a pod."""
    gpu_per_pod: Annotated[float, Field(ge=0), NotAFlag, BeforeValidator(_as_number)] | None = None
    """GPUs of a pod; required with compute: gpu."""
    direction: Direction = Direction.MAXIMIZE
    """Whether larger or smaller scores are better."""
    seed: Annotated[int, Field(ge=0), NotAFlag] = 0
    """Seed of every random draw of the study."""

    @model_validator(mode="after")
    def _check_gpus(self) -> Job:
        if self.compute == "gpu" and not self.gpu_per_pod:
            found = "missing" if self.gpu_per_pod is None else "0"
            raise ValueError(f"gpu_per_pod is {found}, but is required with compute: gpu")
        if self.compute == "cpu" and self.gpu_per_pod:
            raise ValueError(f"gpu_per_pod is {self.gpu_per_pod:g}, but compute is 'cpu'")
        return self

    @property
    def module(self) -> str:
        """Full name of the module that contains the job's class, such as ``modelpkg.train``."""
        return f"{self.package_name}.{self.module_name}"

    def differences(self, other: Job) -> list[str]:
        """Returns the names of the keys in which this job differs from another job."""
        ours, theirs = self.model_dump(), other.model_dump()
        return [key for key in ours if ours[key] != theirs[key]]


def parse_job(data: object) -> Job:
    """Parses and checks a job.

    Raises:
        StudyError: The job is invalid; the error lists every problem with key, value and rule.
    """
    if not isinstance(data, dict):
        raise StudyError("job", [f"is {shown(data)}, but must be an object with keys"])
    try:
        return Job.model_validate(data)
    except ValidationError as error:
        raise StudyError("job", explain(error, Job)) from error
    except UnicodeEncodeError as error:  # half of a surrogate pair, as JSON may have it
        raise StudyError("job", [f"has text that is not Unicode ({error.reason})"]) from error


def study_of(job: Job, *, code: str, runner: str) -> StudyConfig:
    """Converts a job to the configuration of a study.

    Args:
        job: The job.
        code: Path of the job's code folder.
        runner: Name of the runner that executes the study's trials.

    Raises:
        StudyError: A value is not allowed; the message names the key of the job.
    """
    data: dict[str, Any] = {
        "name": job.jobname,
        "code": code,
        "command": f"python -m hpo_ops.sdk.score {job.module}:{job.model_classname}",
        "metric": {"name": METRIC, "direction": job.direction},
        "space": {name: {"choices": values} for name, values in job.hp_ranges.items()},
        "sampler": _sampler(job.strategy),
        "scheduler": "default",
        "trials": job.num_iterations,
        "parallelism": job.parallelism_fact,
        "flow": Flow.ROLLING,
        "runner": runner,
        "resources": {
            "cpu": job.cpu_per_pod,
            "memory": job.memory_per_pod,
            "gpu": job.gpu_per_pod or 0,
        },
        "seed": job.seed,
    }
    try:
        return parse_study(data, source=f"job {job.jobname}")
    except StudyError as error:
        raise StudyError(error.source, with_job_keys(error.problems)) from error


def with_job_keys(problems: Sequence[str]) -> list[str]:
    """Replaces the keys of a study in error messages by the corresponding keys of a job.

    >>> with_job_keys(["trials is 0, but must be 1 or more"])
    ['num_iterations is 0, but must be 1 or more']
    """
    return [_with_job_keys(problem) for problem in problems]


def _with_job_keys(problem: str) -> str:
    for key, name in _STUDY_KEYS.items():
        if re.match(rf"{re.escape(key)}\b", problem):
            rest = problem.removeprefix(key)
            return name + re.sub(r"^(\.[^. ]+)\.choices\b", r"\1", rest)
    return problem


def _sampler(strategy: str) -> str:
    if ":" in strategy:
        return strategy
    return STRATEGIES.get(strategy.upper(), strategy.lower())
