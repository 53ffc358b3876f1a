"""Import of trials that were run outside of this platform, as a study that has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from hpo_ops.config import StudyConfig
from hpo_ops.core import TrialState
from hpo_ops.ledger._schema import reports, trials
from hpo_ops.ledger._study_record import StudyState
from hpo_ops.ledger.ledger import enter_row
from hpo_ops.ledger.study_identity import StudyIdentity
from hpo_ops.protocol import ParamValue, Provenance


@dataclass(frozen=True, kw_only=True)
class ImportedTrial:
    """A completed trial that was run outside of this platform.

    Attributes:
        params: Hyperparameters of the trial.
        value: Final value of the objective.
        metrics: Final value of each metric, by name.
        curve: Learning curve as one or more pairs of step and objective value, sorted by step.
        reason: Where the trial comes from, as a sentence for people.
    """

    params: Mapping[str, ParamValue]
    value: float
    metrics: Mapping[str, float]
    curve: Sequence[tuple[int, float]]
    reason: str

    @property
    def best_step(self) -> int:
        """The first step at which the learning curve has the final value of the objective.

        If the learning curve never has this value, the last step of the curve.
        """
        steps = (step for step, value in self.curve if value == self.value)
        return next(steps, self.curve[-1][0])


@dataclass(frozen=True, kw_only=True)
class ImportedStudy:
    """A study of trials that were run outside of this platform.

    Attributes:
        config: Configuration of the study.
        identity: Identity under which the study is recorded.
        owner: The person who imports the study; None if no person is recorded.
        share: Ids of the DAGs with whose studies the study shares its trials.
        reason: Why the study has ended, as a sentence for people.
        trials: The trials; the index of a trial becomes its number.
    """

    config: StudyConfig
    identity: StudyIdentity
    owner: str | None
    share: Sequence[str]
    reason: str
    trials: Sequence[ImportedTrial]


def record_import(connection: Connection, study: ImportedStudy) -> bool:
    """Inserts an imported study in the state ENDED, with its trials and reports.

    Returns:
        True if the study was inserted; False if a study with this identity exists, which is not
        changed.
    """
    values = {
        "name": study.config.name,
        "run_id": study.identity.run_id,
        "dag_id": study.identity.dag_id,
        "config": study.config.to_dict(),
        "pool": study.config.pool,
        "origin": Provenance().to_dict(),
        "state": StudyState.ENDED.value,
        "reason": study.reason,
        "ended_at": func.now(),
        "owner": study.owner,
        "share": list(study.share),
    }
    study_id = enter_row(connection, study.identity, values)
    if study_id is None:
        return False
    ended_at = connection.execute(select(func.now())).scalar_one()
    metric = study.config.objective.name
    connection.execute(
        trials.insert(),
        [
            {
                "study_id": study_id,
                "number": number,
                "state": TrialState.COMPLETED.value,
                "params": dict(trial.params),
                "seed": 0,
                "step": trial.curve[-1][0],
                "value": trial.value,
                "best_step": trial.best_step,
                "metrics": dict(trial.metrics),
                "reason": trial.reason,
                "told": True,
                "ended_at": ended_at,
            }
            for number, trial in enumerate(study.trials)
        ],
    )
    connection.execute(
        reports.insert(),
        [
            {
                "study_id": study_id,
                "trial": number,
                "step": step,
                "segment_id": study.identity.run_id,
                "value": value,
                "metrics": {metric: value},
                "seconds": 0.0,
            }
            for number, trial in enumerate(study.trials)
            for step, value in trial.curve
        ],
    )
    return True
