"""Formats studies and trials as tables and lines for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from hpo_ops.client import Best, Progress, TrialSummary

_STYLES = {
    "running": "cyan",
    "completed": "green",
    "pruned": "yellow",
    "failed": "red",
    "paused": "magenta",
    "waiting": "dim",
}


def duration(seconds: float | None) -> str:
    """Formats seconds as ``minutes:seconds`` or ``hours:minutes:seconds``; None as empty text.

    >>> duration(3675)
    '1:01:15'
    """
    if seconds is None:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def params_text(params: dict[str, object]) -> str:
    """Formats hyperparameters as ``name=value`` pairs on one line."""
    return " ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in params.items()
    )


def with_deviation(value: float, deviation: float | None, digits: int = 4) -> str:
    """Formats a value, followed by its standard deviation over the folds unless that is None.

    >>> with_deviation(0.73, 0.01), with_deviation(0.73, None)
    ('0.73 ± 0.01', '0.73')
    """
    text = f"{value:.{digits}g}"
    return text if deviation is None else f"{text} ± {deviation:.2g}"


def progress_line(progress: Progress) -> str:
    """Returns one line with a study's elapsed time, its trials by state, and the best value."""
    counts = progress.counts
    done = counts["completed"] + counts["pruned"] + counts["failed"]
    parts = [
        f"{duration(progress.seconds)}",
        f"{done}/{progress.trials} done",
        f"{counts['running']} running",
        f"{counts['pruned']} pruned",
    ]
    if counts["paused"]:
        parts.append(f"{counts['paused']} paused")
    if counts["failed"]:
        parts.append(f"{counts['failed']} failed")
    if progress.served:
        parts.append(f"{progress.served} from the cache")
    if progress.state == "retraining":
        parts.append("training the best configuration on all data")
    if progress.best:
        best = progress.best
        value = with_deviation(best.value, best.deviation)
        parts.append(f"best {progress.metric} {value} (trial {best.trial})")
    return f"{progress.name}  " + " · ".join(parts)


def studies_table(studies: Sequence[Progress]) -> Table:
    """Returns a table with one row for each study, in the given order."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("Study", "Run", "State", "Done", "Failed", "Best", "Time"):
        table.add_column(column, overflow="fold")
    for study in studies:
        counts = study.counts
        done = counts["completed"] + counts["pruned"] + counts["failed"]
        table.add_row(
            study.name,
            study.run_id,
            study.state,
            f"{done}/{study.trials}",
            str(counts["failed"]),
            with_deviation(study.best.value, study.best.deviation, 5) if study.best else "",
            duration(study.seconds),
        )
    return table


def trials_table(trials: Sequence[TrialSummary], metric: str) -> Table:
    """Returns a table with one row for each trial, in the given order.

    Under cross-validation the table also has the number of completed folds of each trial.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    has_folds = any(trial.folds for trial in trials)
    folds = ("Folds",) if has_folds else ()
    columns = ("Trial", "State", "Step", metric, *folds, "Time", "Segments", "Parameters", "Why")
    for column in columns:
        table.add_column(column, overflow="fold")
    for trial in trials:
        done = sum(fold.state == "completed" for fold in trial.folds)
        table.add_row(
            str(trial.trial),
            Text(trial.state, style=_STYLES.get(trial.state, "")),
            str(trial.step),
            "" if trial.value is None else with_deviation(trial.value, trial.deviation, 5),
            *([str(done)] if has_folds else []),
            duration(trial.seconds),
            str(trial.segments),
            params_text(dict(trial.params)),
            _why(trial),
        )
    return table


def _why(trial: TrialSummary) -> str:
    """Returns the reason of a trial's state.

    If the score cache served reports of an earlier trial, adds that trial's number and study,
    unless the reason contains them already.
    """
    if trial.served is None:
        return trial.reason
    if trial.state.is_finished and trial.served.step >= trial.step:
        return trial.reason  # all reports are from the cache, and the reason names their origin
    return f"{trial.reason} (from the cache: {trial.served})".strip()


def front_table(trials: Sequence[TrialSummary]) -> Table:
    """Returns a table of the trials on the Pareto front, with the values of all metrics."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    names = list(trials[0].metrics)
    for column in ("Trial", *names, "Parameters"):
        table.add_column(column, overflow="fold")
    for trial in trials:
        values = [f"{trial.metrics[name]:.5g}" for name in names]
        table.add_row(str(trial.trial), *values, params_text(dict(trial.params)))
    return table


def best_lines(best: Best, metric: str) -> list[str]:
    """Returns lines with the best trial's number, value, parameters and checkpoint URI, if any."""
    value = with_deviation(best.value, best.deviation, 6)
    lines = [
        f"Best trial:  {best.trial} with {metric} {value} at step {best.step}",
        f"Parameters:  {params_text(dict(best.params))}",
    ]
    if best.folds:
        lines.append(f"Folds:       {' '.join(f'{fold:.5g}' for fold in best.folds)}")
    if best.checkpoint_uri:
        of = ""
        if best.checkpoint_fold is not None:
            of = f" of fold {best.checkpoint_fold + 1}"
        if best.is_retrained:
            of = ", trained on all data"
        lines.append(f"Checkpoint:  {best.checkpoint_uri} (step {best.checkpoint_step}{of})")
    return lines
