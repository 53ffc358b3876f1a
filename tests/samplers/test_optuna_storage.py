"""What is written to Optuna's tables in few statements, as Optuna itself reads it."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import inf, nan

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import FrozenTrial, TrialState

from hpo_ops.samplers._draft_trial import Draft
from hpo_ops.samplers.optuna_storage import describe_trial, end_trial, open_storage

SPACE = {"lr": FloatDistribution(1e-4, 1e-1, log=True), "opt": CategoricalDistribution(["a", 1])}
PARAMS = {"lr": 0.01, "opt": 1}
CURVE = [(1, 0.5), (2, nan), (3, inf)]


def written_by_optuna(url: str) -> FrozenTrial:
    study = optuna.create_study(study_name="theirs", storage=url)
    study.enqueue_trial(PARAMS)
    trial = study.ask(SPACE)
    for step, value in CURVE:
        trial.report(value, step)
    trial.set_user_attr("note", ["x", 1])
    study.tell(trial, 0.25)
    return study.trials[0]


def written_by_us(url: str) -> FrozenTrial:
    storage = open_storage(url)
    study_id = optuna.create_study(study_name="ours", storage=storage)._study_id
    draft = Draft(storage, 0, fixed_params=PARAMS)
    draft.trial.params, draft.trial.distributions = dict(PARAMS), dict(SPACE)
    draft.write(study_id)
    trial_id = storage.get_trial_id_from_study_id_trial_number(study_id, 0)
    for _ in range(2):  # both may be repeated
        describe_trial(storage, trial_id, curve=CURVE, attributes={"note": ["x", 1]})
        end_trial(storage, trial_id, TrialState.COMPLETE, [0.25])
    end_trial(storage, trial_id, TrialState.FAIL, None)  # too late
    storage.remove_session()
    return optuna.load_study(study_name="ours", storage=url).trials[0]


def test_optuna_reads_what_it_would_have_written(database: str) -> None:
    ours, theirs = written_by_us(database), written_by_optuna(database)
    for trial in (ours, theirs):
        assert trial.datetime_start is not None
        assert trial.datetime_complete is not None
        assert trial.datetime_start <= trial.datetime_complete
        assert datetime.now() - trial.datetime_start < timedelta(minutes=5)  # noqa: DTZ005
    names = ("number", "state", "values", "params", "distributions", "user_attrs", "system_attrs")
    for name in names:
        assert getattr(ours, name) == getattr(theirs, name), name
    assert str(ours.intermediate_values) == str(theirs.intermediate_values)


def test_another_process_goes_on_after_our_trials(database: str) -> None:
    written_by_us(database)
    theirs = optuna.load_study(study_name="ours", storage=database)
    assert theirs.ask().number == 1
