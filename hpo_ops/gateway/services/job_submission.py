"""Submission of jobs: a job is a JSON object with a code archive, from which a study is started.

The study is executed by a generic DAG (`hpo_study`, `hpo_pod_study`), which can run any study that
the conf of its run describes.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import obstore

from hpo_ops.checkpoints import BadCodeError, Store
from hpo_ops.checkpoints.code_archive import MAX_PACKED, find_module, keep_code, unpack_archive
from hpo_ops.checkpoints.manifest import check_path
from hpo_ops.client.job_messages import JobStatus
from hpo_ops.config import GENERIC_CEILING, StudyConfig, StudyError
from hpo_ops.config.job_file import Job, parse_job, study_of
from hpo_ops.config.runner_registry import all_runners, find_runner
from hpo_ops.gateway.queries.study_overview import read_progress
from hpo_ops.gateway.services.conflict_error import ConflictError
from hpo_ops.gateway.services.owned_resource import Right
from hpo_ops.ledger import Ledger, StudyIdentity, UnknownStudyError
from hpo_ops.ledger.job_table import JobRow, add_job, find_submission, list_jobs

ARCHIVES = "archives"
"""Folder of the store with the code archives of jobs that are submitted without an upload."""


class Runs(Protocol):
    """Starts DAG runs in Airflow and looks up the state of DAG runs."""

    def start(self, dag_id: str, run_id: str, conf: Mapping[str, Any], *, user: str) -> None:
        """Starts a DAG run on behalf of a user; a run that exists already is left unchanged."""
        ...

    def state(self, dag_id: str, run_id: str) -> str | None:
        """Returns Airflow's state of a DAG run, or None if the run does not exist."""
        ...


@dataclass(frozen=True)
class Platform:
    """The parts of the platform around the gateway that the submission of jobs uses.

    Attributes:
        runs: Starts DAG runs and looks up their state.
        open_store: Opens the platform's store; returns the store's URL and the store.
        folder: Local folder into which code is unpacked, for samplers that users have written.
        runner: The name of the runner that executes the jobs' trials.
        most_trials: The largest allowed number of trials of a job.
    """

    runs: Runs
    open_store: Callable[[], tuple[str, Store]]
    folder: Path
    runner: str
    most_trials: int


@dataclass(frozen=True)
class Jobs:
    """Submits jobs and looks up their status. All methods are idempotent."""

    ledger: Ledger
    platform: Platform

    @property
    def dag_id(self) -> str:
        """The id of the DAG that executes jobs: the generic DAG of the platform's runner."""
        return find_runner(self.platform.runner).generic_dag

    def submit(
        self, data: object, *, key: str | None, archive: BinaryIO | None, user: str
    ) -> tuple[JobStatus, bool]:
        """Starts a study from a job, unless the same job was submitted before.

        Args:
            data: The job as parsed JSON.
            key: The submission's idempotency key; None uses the job's name as the key.
            archive: The code archive; None if the job names an archive in the store.
            user: The name of the person who submits the job.

        Returns:
            The job's status, and whether the job is new.

        Raises:
            StudyError: The job or its code is invalid; the message names the JSON key.
            ConflictError: The person has submitted a different job with the same key or name.
        """
        job = parse_job(data)
        known = self._find(job, key, user)
        if known is not None:
            _check_same(known, job, known.code)
        code, study = self._take_code(job, archive)
        row = self._enter(job, code, key, user)
        _check_same(row, job, code)
        self.platform.runs.start(
            row.dag_id, row.run_id, {"study": {**study.to_dict(), "code": code}}, user=user
        )
        return self._status(row), known is None

    def status(
        self, name: str, run_id: str | None = None, *, user: str, may_read: Right
    ) -> JobStatus:
        """Returns the status of the newest job with a name; jobs of the caller take precedence.

        Args:
            name: The job's name. Jobs of different people may have the same name.
            run_id: The id of the job's DAG run; None for any DAG run.
            user: The name of the caller.
            may_read: Checks whether the caller may see a job.

        Raises:
            LookupError: No such job exists, or the caller may not see it.
        """
        with self.ledger.connect() as connection:
            rows = list_jobs(connection, name, run_id=run_id, user=user)
        row = next(filter(may_read, rows), None)
        if row is None:
            raise UnknownStudyError(f"there is no job {name}")
        return self._status(row)

    def _take_code(self, job: Job, archive: BinaryIO | None) -> tuple[str, StudyConfig]:
        """Checks a job and its code, and saves the code in the store.

        Returns:
            The URI of the saved code, and the configuration of the job's study.

        Raises:
            StudyError: The job or its code is invalid.
        """
        source = f"job {job.jobname}"
        address, store = self.platform.open_store()
        with tempfile.TemporaryDirectory(prefix="hpo-job-") as folder:
            try:
                unpack_archive(archive or _read_archive(store, job.file_name), Path(folder))
                root = find_module(Path(folder), job.module)
                if root is None:
                    path = job.module.replace(".", "/")
                    problem = f"module_name is {job.module_name!r}, but there is no {path}.py"
                    raise StudyError(source, [f"{problem} in the archive"])
                study = study_of(job, code=str(root), runner=self.platform.runner)
                self._check_size(study, source)
                name = keep_code(store, root, self.platform.folder)
            except BadCodeError as error:
                problem = f"file_name is {job.file_name!r}, but {error}"
                raise StudyError(source, [problem]) from error
        return f"{address.rstrip('/')}/{name}", study

    def _check_size(self, study: StudyConfig, source: str) -> None:
        problems = [
            f"{key} is {found}, but must be {most} or less on this platform"
            for key, found, most in (
                ("num_iterations", study.trials, self.platform.most_trials),
                ("parallelism_fact", study.parallelism, GENERIC_CEILING),
            )
            if found > most
        ]
        if problems:
            raise StudyError(source, problems)

    def _enter(self, job: Job, code: str, key: str | None, user: str) -> JobRow:
        """Records a job in the ledger, unless the user has a job with the same key or name.

        Returns:
            The recorded job: the new job, or the earlier job with the same key or name.
        """
        new = JobRow(
            key=key,
            name=job.jobname,
            dag_id=self.dag_id,
            # Random, so that nobody else can trigger a run with this id first.
            run_id=f"job__{job.jobname}__{uuid.uuid4().hex[:12]}",
            job=job.model_dump(mode="json"),
            code=code,
            user=user,
        )
        with self.ledger.begin() as connection:
            add_job(connection, new)
        row = self._find(job, key, user)
        if row is None:
            raise UnknownStudyError(f"job {job.jobname} was deleted while it was submitted")
        return row

    def _find(self, job: Job, key: str | None, user: str) -> JobRow | None:
        with self.ledger.connect() as connection:
            return find_submission(connection, user=user, key=key, name=job.jobname)

    def _status(self, row: JobRow) -> JobStatus:
        has_failed = self.platform.runs.state(row.dag_id, row.run_id) == "failed"
        status = JobStatus(
            job=row.name,
            dag_id=row.dag_id,
            run_id=row.run_id,
            state="failed" if has_failed else "queued",
            reason="the DAG run failed before the study started" if has_failed else "",
            iterations=Job.model_validate(row.job).num_iterations,
            notes=_notes(row.dag_id),
        )
        try:
            record = self.ledger.find_run(StudyIdentity(row.dag_id, row.run_id))
        except UnknownStudyError:
            return status
        progress = read_progress(self.ledger, record)
        done = sum(progress.counts[state] for state in ("completed", "pruned", "failed"))
        return replace(
            status,
            state="failed" if has_failed else progress.state,
            reason=progress.reason,
            completion=done / progress.trials,
            iterations=progress.trials,
            counts=progress.counts,
            best=progress.best,
        )


def _notes(dag_id: str) -> list[str]:
    """Returns the notes for people who submit jobs that the runner of a generic DAG declares.

    The list is empty if the runner declares no note.
    """
    return [
        runner.job_note
        for runner in all_runners().values()
        if runner.generic_dag == dag_id and runner.job_note
    ]


def _check_same(row: JobRow, job: Job, code: str) -> None:
    """Checks that a resubmitted job equals the recorded job with the same key or name.

    Args:
        row: The recorded job.
        job: The resubmitted job.
        code: The URI of the resubmitted job's code.

    Raises:
        ConflictError: The two jobs differ in a JSON key or in their code.
    """
    keys = job.differences(Job.model_validate(row.job))
    if not keys and row.code == code:
        return
    what = f"job {row.name}" if row.key is None else f"Idempotency-Key {row.key}"
    difference = f"another {', '.join(keys)}" if keys else "other code"
    raise ConflictError(
        f"{what} was submitted before with {difference}; submit this job with another name "
        "or another Idempotency-Key"
    )


def _read_archive(store: Store, file_name: str) -> BytesIO:
    """Reads a job's code archive from the platform's store.

    Raises:
        BadCodeError: The archive does not exist or is too large, or its name is not allowed.
    """
    name = f"{ARCHIVES}/{file_name.lstrip('/')}"
    try:
        check_path(name)
        found = obstore.get(store, name)
    except FileNotFoundError as error:
        raise BadCodeError(f"no archive was uploaded, and the store has no {name}") from error
    except ValueError as error:
        raise BadCodeError(str(error)) from error
    if found.meta["size"] > MAX_PACKED:
        raise BadCodeError(
            f"it has {found.meta['size'] >> 20} MiB, but at most {MAX_PACKED >> 20} are allowed"
        )
    return BytesIO(bytes(found.bytes()))
