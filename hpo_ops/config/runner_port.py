"""The port of runners: everything in which ways of executing trials differ from each other.

A runner executes the segments of trials: `local` as processes of the Airflow worker, `kubernetes`
as pods. The rest of the platform does not know which runners exist. It asks the registry
(`hpo_ops.config.runner_registry`) for the runner that a study names, and calls the members below.

A runner is one folder with a module ``runner.py`` whose ``RUNNER`` is an object of this port. The
module is imported in every process that reads study files, so it imports nothing heavy at its top:
no Airflow, no client of a cluster. Methods import what they need.

A runner has no state of its own. All members may be called from several threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hpo_ops.core.runner_resources import RunnerResources
from hpo_ops.protocol import Provenance

if TYPE_CHECKING:
    from hpo_ops.airflow.trial_task import TrialTask
    from hpo_ops.config._study_config import StudyConfig


class Runner(Protocol):
    """One way of executing trials."""

    # -- What it is --------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The value of ``runner:`` in study files; recorded with every segment. Never changes."""
        ...

    @property
    def generic_dag(self) -> str:
        """Id of the DAG that runs any study of this runner, given in the trigger's config.

        Each runner has a generic DAG of its own, since the operators of a DAG are fixed.
        """
        ...

    @property
    def runs_images(self) -> bool:
        """Whether trainings run in container images.

        If not, a study of this runner needs ``code`` and must not name an ``image``.
        """
        ...

    @property
    def packs_code(self) -> bool:
        """Whether trainings get their code as an archive from the store.

        If so, `prepare` packs the study's code folder, uploads it once for each content, and hands
        its name (`archive`) and the packages to install to the trial tasks. If not, trainings run
        in the code folder itself, which the worker must be able to read.
        """
        ...

    @property
    def reacts_to_interruptions(self) -> bool:
        """Whether a trial's earlier preemptions and out-of-memory ends change its next segment.

        If so, the gateway counts them and sends the counts with each segment (`preemptions` and
        `ooms` of `NextAction`). If not, both are 0.
        """
        ...

    @property
    def log_containers(self) -> Sequence[str]:
        """Containers whose logs are kept in the store, for ``hpo logs --container``.

        Empty where a training's output is in its task's log only.
        """
        ...

    @property
    def namespace_key(self) -> tuple[str, ...]:
        """The path in the study file of the namespace of a study's resources.

        Such as ``("pod", "namespace")``. Empty where all resources are in one place.
        """
        ...

    @property
    def job_note(self) -> str:
        """A sentence for people who submit jobs: what of a job this runner ignores; or empty."""
        ...

    # -- Studies; called by the gateway, the CLI and tasks -----------------------------------

    def check_study(self, study: StudyConfig) -> None:
        """Checks what depends on nothing but the study file.

        Called whenever a study is parsed, also one that was started long ago, so a check must not
        become stricter later. Checks that need the platform are those of `find_refusals`.

        Raises:
            ValueError: A value is not allowed; the message starts with the key.
        """
        ...

    def pool(self, study: StudyConfig) -> str:
        """The pool whose capacity the study's trials share with other studies."""
        ...

    def lease(self, study: StudyConfig) -> float:
        """How much of its pool one unit of a trial takes; more than 0."""
        ...

    def max_units(self, study: StudyConfig) -> int | None:
        """Most units that an allocator may give one trial of the study; None for any number."""
        ...

    def granted(self, study: StudyConfig, units: float) -> dict[str, float]:
        """The resources of a trial with so many units, as its training is told.

        Always has the key ``units``.
        """
        ...

    def requested(self, study: StudyConfig) -> dict[str, Any]:
        """The resources that a trial asks for, as its provenance records them. JSON values."""
        ...

    def provenance(self, study: StudyConfig, environment: Mapping[str, str]) -> Provenance:
        """What trainings are made from besides their code, such as the image.

        Args:
            study: The study.
            environment: Environment variables of the platform, for its own image.
        """
        ...

    def cache_parts(self, study: StudyConfig) -> dict[str, Any]:
        """What of the study, besides code, image, command and env, decides what is trained.

        Part of the key of the score cache: trials whose parts differ do not share scores. Leave
        out what has its default value, so that keys stay the same when a setting is added. JSON
        values.
        """
        ...

    # -- The platform's settings; called by the gateway at its start -------------------------

    def job_priority(self, environment: Mapping[str, str]) -> int:
        """How much a platform with these environment variables prefers this runner for jobs.

        Jobs run with the runner that says the highest number, unless the operator chooses one
        (``HPO_JOB_RUNNER``). 0 if the runner cannot be used; `local` says 1, `kubernetes` 10.
        """
        ...

    def initial_pools(self) -> Mapping[str, float]:
        """Capacities of pools that exist from the start, until an operator sets others."""
        ...

    # -- Airflow; called in DAG files and tasks ----------------------------------------------

    def operator(self) -> type[TrialTask]:
        """The operator class of trial tasks.

        A subclass of `TrialTask` that implements `run_segment`. It is called with the arguments of
        `TrialTask` only.
        """
        ...

    def find_refusals(self, study: StudyConfig) -> list[str]:
        """Why the platform refuses a study of this runner now; empty where it does not.

        Called by `prepare`, in a worker. Each problem is a sentence that starts with its key.
        """
        ...

    def find_warnings(self, study: StudyConfig) -> list[str]:
        """What the operator should know about running this study; logged by `prepare`."""
        ...

    def pool_capacity(self, study: StudyConfig) -> float | None:
        """The capacity of the study's pool, as the platform reports it now.

        Called by `prepare` and every few minutes while studies run, in a worker. None where the
        pool is unlimited, is set by the operator, or cannot be seen.
        """
        ...

    # -- Leftovers; called by the reconciler and ``hpo doctor`` ------------------------------

    def resources_of_task(self) -> RunnerResources | None:
        """Access to the resources of segments, for a task of Airflow's.

        None where the runner leaves nothing behind, or is not set up on this platform.

        Raises:
            ResourcesUnavailableError: The platform is set up, but cannot be reached.
        """
        ...

    def resources_of_person(self, namespace: str | None) -> RunnerResources | None:
        """Access to the resources of segments, with the rights of the person at the terminal.

        Args:
            namespace: Where resources are whose study names no namespace; None for the default.

        Raises:
            ResourcesUnavailableError: They cannot be seen from here; says why.
        """
        ...
