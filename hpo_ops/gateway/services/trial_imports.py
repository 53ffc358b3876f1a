"""Imports: trials that were run elsewhere become an ended study, to start others from."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from hpo_ops.client.import_messages import Imported, ImportRequest, PastTrial, left_out_lines
from hpo_ops.config import StudyConfig, StudyError
from hpo_ops.core import TrialState
from hpo_ops.core.param_fitting import fit
from hpo_ops.gateway.services.studies import Studies
from hpo_ops.ledger import StudyIdentity, StudyState
from hpo_ops.ledger.ledger import enter_row
from hpo_ops.ledger.schema import reports, trials
from hpo_ops.protocol import Provenance
from hpo_ops.samplers.optuna_import import KnownTrial, add_trials
from hpo_ops.samplers.warm_start_trials import MAX_TAKEN


def import_trials(
    service: Studies, study: StudyConfig, request: ImportRequest, *, owner: str | None = None
) -> Imported:
    """Enters what fits of some trials as an ended study of the DAG of its name. Safe to repeat.

    Raises:
        StudyError: None of them fits; says why.
    """
    known, left_out = choose(study, request.trials)
    if not known:
        raise StudyError(
            f"study {study.name}",
            left_out_lines(left_out) or [f"{request.source} has no completed trials"],
        )
    run_id = f"import__{_digest(request)}"
    config = study.model_copy(
        update={"trials": len(known), "max_trials": None, "enqueue": (), "warm_start": None}
    )
    identity = StudyIdentity(study.name, run_id)
    ownership = {"owner": owner, "share": [*study.share, *service.share]}
    with service.ledger.engine.begin() as connection:
        _enter(connection, config, identity, request.source, known, ownership)
    record = service.ledger.find_run(identity)
    with service.ledger.asking(record.id):
        add_trials(service.proposals.search(record), request.source, known)
    return Imported(study=study.name, run_id=run_id, taken=len(known), left_out=left_out)


def choose(
    study: StudyConfig, past: Sequence[PastTrial]
) -> tuple[list[KnownTrial], dict[str, list[int]]]:
    """The trials that are points of a study's space, and the others by what is wrong with them."""
    known: list[KnownTrial] = []
    left_out: dict[str, list[int]] = {}
    for trial in past:
        params, problems = fit(study.space, trial.params)
        values = [value for value in trial.values if value is not None and math.isfinite(value)]
        if len(values) != len(trial.values):
            problems.append("has a value that is no finite number")
        elif len(values) != len(study.objectives):
            wanted = len(study.objectives)
            problems.append(f"has {len(values)} values, but the study has {wanted} metrics")
        elif not problems and len(known) == MAX_TAKEN:
            problems.append(f"{MAX_TAKEN} were taken already")
        if problems:
            left_out.setdefault("; ".join(problems), []).append(trial.number)
            continue
        curve = [
            (step, value) for step, value in trial.curve if step >= 1 and math.isfinite(value)
        ]
        known.append(KnownTrial(number=trial.number, params=params, values=values, curve=curve))
    return known, left_out


def _enter(
    connection: Connection,
    study: StudyConfig,
    identity: StudyIdentity,
    source: str,
    known: Sequence[KnownTrial],
    ownership: Mapping[str, Any],
) -> None:
    values = {
        "name": study.name,
        "run_id": identity.run_id,
        "dag_id": identity.dag_id,
        "config": study.to_dict(),
        "pool": study.pool,
        "origin": Provenance().to_dict(),
        "state": StudyState.ENDED.value,
        "reason": f"{len(known)} trials imported from {source}",
        "ended_at": func.now(),
        **ownership,
    }
    study_id = enter_row(connection, identity, values)
    if study_id is None:
        return  # it is there already
    ended_at = connection.execute(select(func.now())).scalar_one()
    names = [metric.name for metric in study.objectives]
    seen = [(trial, trial.curve or [(1, trial.values[0])]) for trial in known]
    connection.execute(
        trials.insert(),
        [
            {
                "study_id": study_id,
                "number": number,
                "state": TrialState.COMPLETED.value,
                "params": dict(trial.params),
                "seed": 0,
                "step": curve[-1][0],
                "value": trial.values[0],
                "best_step": _best_step(curve, trial.values[0]),
                "metrics": dict(zip(names, trial.values, strict=True)),
                "reason": f"trial {trial.number} of {source}",
                "told": True,
                "ended_at": ended_at,
            }
            for number, (trial, curve) in enumerate(seen)
        ],
    )
    connection.execute(
        reports.insert(),
        [
            {
                "study_id": study_id,
                "trial": number,
                "step": step,
                "segment_id": identity.run_id,
                "value": value,
                "metrics": {names[0]: value},
                "seconds": 0.0,
            }
            for number, (_, curve) in enumerate(seen)
            for step, value in curve
        ],
    )


def _best_step(curve: Sequence[tuple[int, float]], value: float) -> int:
    """The step at which a trial had its value; its last where no report has it."""
    return next((step for step, seen in curve if seen == value), curve[-1][0])


def _digest(request: ImportRequest) -> str:
    """Names the content: the same trials for the same study are one import."""
    text = json.dumps(request.to_dict(), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
