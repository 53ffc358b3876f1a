"""``hpo submit``: sends a job to the gateway.

A job is a study that is described by a JSON file, with an archive of its code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hpo_ops.checkpoints import BadCodeError
from hpo_ops.checkpoints.code_upload import pack_code
from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import connect
from hpo_ops.cli.follow_study import follow
from hpo_ops.cli.study_tables import best_lines
from hpo_ops.cli.terminal import Json, err, out, print_json
from hpo_ops.client import JobStatus
from hpo_ops.config.job_file import METRIC, parse_job

EPILOG = "Example: hpo submit job.json --code ./model --follow"


def submit(
    file: Annotated[Path, typer.Argument(help="The job: a JSON file.")],
    code: Annotated[
        Path | None,
        typer.Option(
            help="The job's code: a folder or a tar.gz; by default the job's file_name, looked "
            "for beside the job file."
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key; a new key runs the same job again.")
    ] = None,
    is_followed: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Show progress until the job ends.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Submits a job; if the same job was submitted before, only shows the state of that job."""
    data = _read(file)
    job = parse_job(data)
    session = connect()
    try:
        status = session.gateway.submit(data, _pack(code, file, job.file_name), key=key)
    except (ValueError, LookupError) as error:
        raise CommandError(str(error)) from error
    page = session.airflow.run_page(status.dag_id, status.run_id)
    is_success = True
    if not as_json:
        out.print(f"Job {status.job}: {page}", soft_wrap=True)
        for note in status.notes:
            out.print(f"Note: {note}", soft_wrap=True)
    if is_followed:
        is_success = follow(
            session,
            err if as_json else out,
            dag_id=status.dag_id,
            run_id=status.run_id,
            name=status.job,
        )
        status = session.gateway.job(status.job, status.run_id)
    if as_json:
        print_json(status.to_dict())
    else:
        for line in status_lines(status):
            out.print(line, soft_wrap=True)
    if not is_success:
        raise typer.Exit(1)


def status_lines(status: JobStatus) -> list[str]:
    """Returns lines with a job's state and progress, and its best trial if the job has one."""
    why = f" ({status.reason})" if status.reason else ""
    lines = [f"{status.state}{why}, {status.completion:.0%} of {status.iterations} iterations"]
    return lines + (best_lines(status.best, METRIC) if status.best else [])


def _read(file: Path) -> dict[str, object]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CommandError(f"{file}: is not JSON: {error}") from error
    return data if isinstance(data, dict) else {}


def _pack(code: Path | None, file: Path, name: str) -> bytes | None:
    """Returns the archive of the job's code, or None if the code is not on this machine.

    Args:
        code: The folder or archive with the code that the user has given; None for the archive
            `name` in the folder of the job file.
        file: The path of the job file.
        name: The path of the archive, as the job file states it.

    Raises:
        CommandError: The code cannot be read or packed.
    """
    if code is None:
        beside = file.parent / name.lstrip("/")
        if not beside.is_file():
            return None
        code = beside
    try:
        return pack_code(code) if code.is_dir() else code.read_bytes()
    except OSError as error:
        raise CommandError(f"{code}: cannot be read: {error.strerror}") from error
    except BadCodeError as error:
        raise CommandError(str(error)) from error
