"""The interface of runners, which contains everything that depends on how trials are executed.

A runner executes the segments (uninterrupted executions) of trials: `local` as processes of the
Airflow worker, `kubernetes` as pods. The rest of the platform does not depend on particular
runners. It gets the runner that a study names from the registry
(`hpo_ops.config.runner_registry`), and calls the members of `Runner`.

A runner is a folder with a module ``runner.py`` whose constant ``RUNNER`` implements the protocol
`Runner`. Every process that reads study files imports the module, so its top-level imports must be
fast: neither Airflow nor the client of a cluster. Methods import such packages themselves.

A runner has no state. All members may be called from several threads.
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
    """A way of executing trials, such as processes, pods or containers."""

    # -- What it is --------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The value of ``runner:`` in study files.

        The name is recorded with every segment, so it must never change.
        """
        ...

    @property
    def generic_dag(self) -> str:
        """Id of the DAG that runs any study of this runner from the DAG run's conf.

        Each runner has its own generic DAG, since the operator classes of a DAG are fixed.
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
        """Whether trainings receive their code as an archive from the object store.

        If so, the task `prepare` packs the study's code folder, uploads the archive unless an
        archive of the same content exists, and passes its name (`archive`) and the packages to
        install to the trial tasks. If not, trainings run in the code folder itself, which the
        worker must be able to read.
        """
        ...

    @property
    def reacts_to_interruptions(self) -> bool:
        """Whether earlier preemptions and out-of-memory errors of a trial affect its next segment.

        If so, the gateway counts these events and sends the counts with each segment
        (`preemptions` and `ooms` of `NextAction`). If not, both counts are 0.
        """
        ...

    @property
    def log_containers(self) -> Sequence[str]:
        """Names of containers whose logs are saved in the store, for ``hpo logs --container``.

        Empty if the output of a training is only in the log of its task.
        """
        ...

    @property
    def namespace_key(self) -> tuple[str, ...]:
        """The key of the study file that sets the namespace of the study's resources.

        The key is given as its parts, such as ``("pod", "namespace")``. Empty if the runner has no
        namespaces.
        """
        ...

    @property
    def job_note(self) -> str:
        """A sentence for users about parts of a job file that this runner ignores or restricts.

        Empty if the runner neither ignores nor restricts any part.
        """
        ...

    # -- Studies; called by the gateway, the CLI and tasks -----------------------------------

    def check_study(self, study: StudyConfig) -> None:
        """Checks the keys of a study as far as possible without access to the platform.

        The method is called whenever a study is parsed, even for a study of an earlier release, so
        a check must not become stricter later. `find_refusals` contains the checks that need
        access to the platform.

        Raises:
            ValueError: A value is not allowed; the message starts with the value's key.
        """
        ...

    def pool(self, study: StudyConfig) -> str:
        """Returns the name of the pool from which the study's trials lease resources.

        A pool is a named amount of resources that several studies share.
        """
        ...

    def lease(self, study: StudyConfig) -> float:
        """Returns the amount that a trial leases from the pool for each of its units; more than 0.

        A unit is the amount of resources that a trial has by default, such as a GPU.
        """
        ...

    def max_units(self, study: StudyConfig) -> int | None:
        """Returns the maximum number of units of one trial, or None if there is no maximum.

        The maximum applies to studies with an allocator.
        """
        ...

    def granted(self, study: StudyConfig, units: float) -> dict[str, float]:
        """Returns the amounts of resources that a training with the given number of units has.

        The amounts, by resource name, are part of the training's assignment. The key ``units`` is
        always present.
        """
        ...

    def requested(self, study: StudyConfig) -> dict[str, Any]:
        """Returns the resources that a trial requests, as JSON data for its provenance."""
        ...

    def provenance(self, study: StudyConfig, environment: Mapping[str, str]) -> Provenance:
        """Returns the provenance of trainings apart from their code, such as the image.

        Args:
            study: The study.
            environment: Environment variables of the platform, which may name the default image.
        """
        ...

    def cache_parts(self, study: StudyConfig) -> dict[str, Any]:
        """Returns the settings of this runner that influence the result of a training.

        The settings, as JSON data, are part of the key of the score cache, together with code,
        image, command and env: trials with different settings do not share scores. Settings with
        their default values must be omitted, so that keys stay the same when a setting is added.
        """
        ...

    # -- The platform's settings; called by the gateway at its start -------------------------

    def job_priority(self, environment: Mapping[str, str]) -> int:
        """Returns the priority of this runner for jobs; 0 if it must not be chosen by default.

        Jobs run with the runner of the highest priority, unless the operator chooses a runner
        (``HPO_JOB_RUNNER``). The priority of `local` is 1, that of `kubernetes` 10.

        Args:
            environment: Environment variables of the platform.
        """
        ...

    def initial_pools(self) -> Mapping[str, float]:
        """Returns the initial capacities of pools by name, which an operator may change later."""
        ...

    # -- Airflow; called in DAG files and tasks ----------------------------------------------

    def operator(self) -> type[TrialTask]:
        """Returns the Airflow operator class of trial tasks.

        The class is a subclass of `TrialTask` that implements `run_segment`. It is instantiated
        with the arguments of `TrialTask` only.
        """
        ...

    def find_refusals(self, study: StudyConfig) -> list[str]:
        """Returns the reasons why the platform cannot run the study now; empty if it can.

        The task `prepare` calls this method in a worker. Each reason is a sentence that starts
        with the invalid key of the study.
        """
        ...

    def find_warnings(self, study: StudyConfig) -> list[str]:
        """Returns warnings about running this study, which the task `prepare` logs."""
        ...

    def pool_capacity(self, study: StudyConfig) -> float | None:
        """Returns the current capacity of the study's pool, or None if it cannot be determined.

        None also means that the pool is unlimited or that the operator sets its capacity. The
        method is called in a worker, by the task `prepare` and every few minutes while studies
        run.
        """
        ...

    # -- Leftovers; called by the reconciler and ``hpo doctor`` ------------------------------

    def resources_of_task(self) -> RunnerResources | None:
        """Returns access to the resources of segments, such as pods, for an Airflow task.

        Returns None if the runner creates no resources that can outlive a segment, or is not set
        up on this platform.

        Raises:
            ResourcesUnavailableError: The platform is set up, but cannot be reached.
        """
        ...

    def resources_of_person(self, namespace: str | None) -> RunnerResources | None:
        """Returns access to the resources of segments, with the rights of the user of the CLI.

        Returns None if the runner creates no resources that can outlive a segment.

        Args:
            namespace: Namespace of studies that name no namespace; None for the default.

        Raises:
            ResourcesUnavailableError: The resources cannot be accessed; the message explains why.
        """
        ...
