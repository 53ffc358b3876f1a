"""Shows a study's progress until its DAG run ends: as a live bar in a terminal, else as lines."""

from __future__ import annotations

import time

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from hpo_ops.cli.command_errors import AirflowUnavailableError
from hpo_ops.cli.connection import Session
from hpo_ops.cli.study_tables import progress_line
from hpo_ops.client import GatewayUnreachableError, Progress

POLL_SECONDS = 1.0
UNAVAILABLE_SECONDS = 120.0
ENDED = ("success", "failed")


def follow(session: Session, console: Console, *, dag_id: str, run_id: str, name: str) -> bool:
    """Shows a study's progress until its DAG run has ended; returns whether the run succeeded.

    If Airflow's api-server does not answer, for example because it is restarting, the requests
    are repeated for up to `UNAVAILABLE_SECONDS`; then the error is raised.

    Args:
        session: The connections to Airflow and the gateway.
        console: The console on which the progress is shown.
        dag_id: The id of the DAG.
        run_id: The id of the DAG run.
        name: The name of the study.
    """
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        last, seen_at = "", time.monotonic()
        while True:
            try:
                state = session.airflow.run_state(dag_id, run_id)
                progress = _progress(session, name, dag_id, run_id)
            except (AirflowUnavailableError, GatewayUnreachableError):
                if time.monotonic() - seen_at > UNAVAILABLE_SECONDS:
                    raise
                time.sleep(POLL_SECONDS)
                continue
            seen_at = time.monotonic()
            line = progress_line(progress) if progress else f"{name}  {state}"
            if console.is_terminal:
                live.update(_picture(line, progress))
            elif _without_time(line) != last:
                last = _without_time(line)
                console.print(line, soft_wrap=True)
            if state in ENDED:
                return state == "success"
            time.sleep(POLL_SECONDS)


def _progress(session: Session, name: str, dag_id: str, run_id: str) -> Progress | None:
    try:
        return session.gateway.find(name, run_id, dag_id=dag_id)
    except LookupError:
        return None  # prepare has not run yet


def _picture(line: str, progress: Progress | None) -> Group:
    counts = progress.counts if progress else {}
    done = sum(counts.get(state, 0) for state in ("completed", "pruned", "failed"))
    total = progress.trials if progress else 1
    return Group(Text(line), ProgressBar(total=total, completed=done, width=60))


def _without_time(line: str) -> str:
    """Returns a progress line without its elapsed time, so that other changes can be detected."""
    return line.split(" · ", 1)[-1]
