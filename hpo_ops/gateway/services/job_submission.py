"""Submission of jobs: a JSON object and a code archive become a study of the generic DAG."""

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
"""Folder of the store with code archives that jobs name instead of uploading them."""


class Runs(Protocol):
    """Starts DAG runs and looks up their state, on the platform that the gateway is part of."""

    def start(self, dag_id: str, run_id: str, conf: Mapping[str, Any], *, user: str) -> None:
        """Starts a DAG run; a run that exists already stays as it is."""
        ...

    def state(self, dag_id: str, run_id: str) -> str | None:
        """Airflow's state of a DAG run; None where there is no such run."""
        ...


@dataclass(frozen=True)
class Platform:
    """What the submission of jobs needs from the platform that the gateway is part of.

    Attributes:
        runs: Starts DAG runs.
        open_store: Opens the platform's store; returns its URL too.
        folder: Where code is unpacked, for users' samplers.
        runner: The runner of the jobs' trials.
        most_trials: The largest number of trials of a rolling study.
    """

    runs: Runs
    open_store: Callable[[], tuple[str, Store]]
    folder: Path
    runner: str
    most_trials: int


@dataclass(frozen=True)
class Jobs:
    """Submits jobs and looks up their status. Every call is safe to repeat."""

    ledger: Ledger
    platform: Platform

    @property
    def dag_id(self) -> str:
        """The DAG that executes jobs."""
        return find_runner(self.platform.runner).generic_dag

    def submit(
        self, data: object, *, key: str | None, archive: BinaryIO | None, user: str
    ) -> tuple[JobStatus, bool]:
        """Starts a study from a job, once.

        Args:
            data: The job.
            key: The submission's idempotency key; None uses the job's name as the key.
            archive: Its code; None where the job names an archive in the store.
            user: The person who submits it.

        Returns:
            The job's status, and whether the job is new.

        Raises:
            StudyError: The job or its code is invalid; the message names the JSON key.
            ConflictError: Another job of this person has the same key or name.
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
        """Looks up the status of the newest job of a name; jobs of the caller come first.

        Args:
            name: The job's name, which jobs of other people may have too.
            run_id: Its DAG run; None for any.
            user: The person who asks.
            may_read: Whether that person may see a job.

        Raises:
            LookupError: There is no such job, or none that the person may see.
        """
        with self.ledger.connect() as connection:
            rows = list_jobs(connection, name, run_id=run_id, user=user)
        row = next(filter(may_read, rows), None)
        if row is None:
            raise UnknownStudyError(f"there is no job {name}")
        return self._status(row)

    def _take_code(self, job: Job, archive: BinaryIO | None) -> tuple[str, StudyConfig]:
        """Checks a job's code and keeps it in the store; returns its URI, and the study."""
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
        """Enters a job; returns the row of the first submission with its key or name."""
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
    """What the runner of a generic DAG has to say to people who submit jobs."""
    return [
        runner.job_note
        for runner in all_runners().values()
        if runner.generic_dag == dag_id and runner.job_note
    ]


def _check_same(row: JobRow, job: Job, code: str) -> None:
    """Raises `ConflictError` if the job that was submitted with a key before is different."""
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
    """Reads a code archive from the store."""
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
