"""Jobs: a JSON object and an archive of code become a study of the generic DAG."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import obstore
from sqlalchemy import and_, select
from sqlalchemy.dialects.postgresql import insert as upsert

from hpo_ops.checkpoints import BadCodeError, Store
from hpo_ops.checkpoints.code_archive import MAX_PACKED, find_module, keep_code, unpack_archive
from hpo_ops.checkpoints.manifest import check_path
from hpo_ops.client.job_messages import JobStatus
from hpo_ops.config import GENERIC_CEILING, GENERIC_DAGS, StudyConfig, StudyError
from hpo_ops.config.job_file import Job, parse_job, study_of
from hpo_ops.gateway.http.authentication import Right
from hpo_ops.gateway.queries.study_progress import read_progress
from hpo_ops.gateway.services.conflict_error import ConflictError
from hpo_ops.ledger import Ledger, StudyIdentity, UnknownStudyError
from hpo_ops.ledger.schema import jobs

if TYPE_CHECKING:
    from sqlalchemy import Row

ARCHIVES = "archives"
"""Folder of the store for archives that jobs name instead of sending them."""
LOCAL_NOTE = (
    "trials run as processes of the workers here: compute, cpu_per_pod, memory_per_pod and "
    "gpu_per_pod are for pods, and what setup.py asks for must be installed already"
)


class Runs(Protocol):
    """DAG runs, as the platform around the gateway starts them."""

    def start(self, dag_id: str, run_id: str, conf: Mapping[str, Any], *, user: str) -> None:
        """Starts a DAG run; one that is there already stays as it is."""
        ...

    def state(self, dag_id: str, run_id: str) -> str | None:
        """Airflow's word for how a run stands; None where there is no such run."""
        ...


@dataclass(frozen=True)
class Platform:
    """What jobs need from the platform around the gateway.

    Attributes:
        runs: Starts DAG runs.
        open_store: The address of the platform's store, and the store.
        folder: Where code is unpacked, for samplers of the user's.
        runner: Where trials of jobs run.
        most_trials: Trials that a rolling study may have.
    """

    runs: Runs
    open_store: Callable[[], tuple[str, Store]]
    folder: Path
    runner: str
    most_trials: int


@dataclass(frozen=True)
class Jobs:
    """Takes jobs in and says how they stand. Every call is safe to repeat."""

    ledger: Ledger
    platform: Platform

    @property
    def dag_id(self) -> str:
        """The DAG that executes jobs."""
        return GENERIC_DAGS[self.platform.runner]

    def submit(
        self, data: object, *, key: str | None, archive: BinaryIO | None, user: str
    ) -> tuple[JobStatus, bool]:
        """Makes a study of a job, once.

        Args:
            data: The job.
            key: The submission's Idempotency-Key; without one the job's name stands for it.
            archive: Its code; None where the job names an archive in the store.
            user: Who submits it.

        Returns:
            How it stands, and whether it is new.

        Raises:
            StudyError: The job or its code cannot be used; names the key.
            ConflictError: The key or name is another job's.
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
        """How a job stands: that of a run, or else the newest of a name; one's own come first.

        Args:
            name: The job's name, which jobs of other people may have as well.
            run_id: Its DAG run.
            user: Who asks.
            may_read: Whether they may see a job, by its row.

        Raises:
            LookupError: There is none that they may see.
        """
        query = (
            select(jobs, jobs.c.user.label("owner"))
            .where(jobs.c.name == name)
            .order_by(jobs.c.user != user, jobs.c.at.desc())
        )
        if run_id is not None:
            query = query.where(jobs.c.run_id == run_id)
        with self.ledger.engine.connect() as connection:
            rows = connection.execute(query).all()
        row = next(filter(may_read, rows), None)
        if row is None:
            raise UnknownStudyError(f"there is no job {name}")
        return self._status(row)

    def _take_code(self, job: Job, archive: BinaryIO | None) -> tuple[str, StudyConfig]:
        """Looks through a job's code and keeps it; returns its address, and the study."""
        source = f"job {job.jobname}"
        address, store = self.platform.open_store()
        with tempfile.TemporaryDirectory(prefix="hpo-job-") as folder:
            try:
                unpack_archive(archive or _named(store, job.file_name), Path(folder))
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
            f"{key} is {found}, but must be {most} or less here"
            for key, found, most in (
                ("num_iterations", study.trials, self.platform.most_trials),
                ("parallelism_fact", study.parallelism, GENERIC_CEILING),
            )
            if found > most
        ]
        if problems:
            raise StudyError(source, problems)

    def _enter(self, job: Job, code: str, key: str | None, user: str) -> Row[Any]:
        values: dict[str, Any] = {
            "key": key,
            "name": job.jobname,
            "dag_id": self.dag_id,
            # Nobody can guess it, and so trigger a run of their own in the job's place.
            "run_id": f"job__{job.jobname}__{uuid.uuid4().hex[:12]}",
            "job": job.model_dump(mode="json"),
            "code": code,
            "user": user,
        }
        with self.ledger.engine.begin() as connection:
            connection.execute(upsert(jobs).values(values).on_conflict_do_nothing())
        row = self._find(job, key, user)
        if row is None:
            raise UnknownStudyError(f"job {job.jobname} has gone meanwhile")
        return row

    def _find(self, job: Job, key: str | None, user: str) -> Row[Any] | None:
        """The submission of a person with a key, or without one under the job's name."""
        is_it = jobs.c.key == key
        if key is None:
            is_it = and_(jobs.c.key.is_(None), jobs.c.name == job.jobname)
        with self.ledger.engine.connect() as connection:
            return connection.execute(select(jobs).where(jobs.c.user == user, is_it)).one_or_none()

    def _status(self, row: Row[Any]) -> JobStatus:
        has_failed = self.platform.runs.state(row.dag_id, row.run_id) == "failed"
        status = JobStatus(
            job=row.name,
            dag_id=row.dag_id,
            run_id=row.run_id,
            state="failed" if has_failed else "queued",
            reason="its DAG run failed before its study started" if has_failed else "",
            iterations=Job.model_validate(row.job).num_iterations,
            notes=[LOCAL_NOTE] if row.dag_id == GENERIC_DAGS["local"] else [],
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


def _check_same(row: Row[Any], job: Job, code: str) -> None:
    """Raises `ConflictError` where what was entered under a key is another job."""
    keys = job.differences(Job.model_validate(row.job))
    if not keys and row.code == code:
        return
    what = f"job {row.name}" if row.key is None else f"Idempotency-Key {row.key}"
    other = f"another {', '.join(keys)}" if keys else "other code"
    raise ConflictError(
        f"{what} is there already with {other}; give this one another name, "
        "or an Idempotency-Key of its own"
    )


def _named(store: Store, file_name: str) -> BytesIO:
    """An archive that lies in the store."""
    name = f"{ARCHIVES}/{file_name.lstrip('/')}"
    try:
        check_path(name)
        found = obstore.get(store, name)
    except FileNotFoundError as error:
        raise BadCodeError(
            f"no archive was sent along, and there is no {name} in the store"
        ) from error
    except ValueError as error:
        raise BadCodeError(str(error)) from error
    if found.meta["size"] > MAX_PACKED:
        raise BadCodeError(
            f"it has {found.meta['size'] >> 20} MiB, at most {MAX_PACKED >> 20} are taken"
        )
    return BytesIO(bytes(found.bytes()))
