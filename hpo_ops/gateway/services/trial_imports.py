"""Imports: records trials that were run elsewhere as an ended study, for warm starts from it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence

from hpo_ops.client.import_messages import Imported, ImportRequest, PastTrial, left_out_lines
from hpo_ops.config import StudyConfig, StudyError
from hpo_ops.core.param_fitting import fit
from hpo_ops.gateway.services.study_service import StudyService
from hpo_ops.ledger import StudyIdentity
from hpo_ops.ledger.imported_study import ImportedStudy, ImportedTrial, record_import
from hpo_ops.samplers.optuna_import import KnownTrial, add_trials
from hpo_ops.samplers.warm_start_trials import MAX_TAKEN


def import_trials(
    studies: StudyService, study: StudyConfig, request: ImportRequest, *, owner: str | None = None
) -> Imported:
    """Records trials that were run elsewhere as an ended study, if they fit its search space.

    The study's name is used as its DAG id. Its run id contains a hash of the request, so that a
    repeated import of the same trials has no effect.

    Returns:
        The study's name and run id, the number of recorded trials, and the numbers of the trials
        that were left out, grouped by problem.

    Raises:
        StudyError: No trial fits the search space; the message gives the reasons.
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
    imported = ImportedStudy(
        config=config,
        identity=identity,
        owner=owner,
        share=[*study.share, *studies.share],
        reason=f"{len(known)} trials imported from {request.source}",
        trials=[_imported_trial(trial, study, request.source) for trial in known],
    )
    with studies.ledger.begin() as connection:
        record_import(connection, imported)
    record = studies.ledger.find_run(identity)
    with studies.ledger.sampler_lock(record.id):
        add_trials(studies.proposals.search(record), request.source, known)
    return Imported(study=study.name, run_id=run_id, taken=len(known), left_out=left_out)


def choose(
    study: StudyConfig, past: Sequence[PastTrial]
) -> tuple[list[KnownTrial], dict[str, list[int]]]:
    """Selects the trials to import that fit a study's search space and metrics.

    Returns:
        The trials that fit, and the numbers of all other trials, grouped by problem.
    """
    known: list[KnownTrial] = []
    left_out: dict[str, list[int]] = {}
    for trial in past:
        params, problems = fit(study.space, trial.params)
        values = [value for value in trial.values if value is not None and math.isfinite(value)]
        if len(values) != len(trial.values):
            problems.append("has a value that is not a finite number")
        elif len(values) != len(study.objectives):
            wanted = len(study.objectives)
            problems.append(f"has {len(values)} values, but the study has {wanted} metrics")
        elif not problems and len(known) == MAX_TAKEN:
            problems.append(f"the import has more than {MAX_TAKEN} trials, the maximum")
        if problems:
            left_out.setdefault("; ".join(problems), []).append(trial.number)
            continue
        curve = [
            (step, value) for step, value in trial.curve if step >= 1 and math.isfinite(value)
        ]
        known.append(KnownTrial(number=trial.number, params=params, values=values, curve=curve))
    return known, left_out


def _imported_trial(trial: KnownTrial, study: StudyConfig, source: str) -> ImportedTrial:
    names = [metric.name for metric in study.objectives]
    return ImportedTrial(
        params=trial.params,
        value=trial.values[0],
        metrics=dict(zip(names, trial.values, strict=True)),
        curve=trial.curve or [(1, trial.values[0])],
        reason=f"trial {trial.number} of {source}",
    )


def _digest(request: ImportRequest) -> str:
    """Returns a hash of an import request; equal requests have the same hash."""
    text = json.dumps(request.to_dict(), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
