"""Learning curves of small learners that scikit-learn trains on data that come with it.

``TEST`` are the sets that benchmarks/curves.py prints. On ``DEVELOPMENT`` predictors are chosen,
so that nothing is chosen by what it is then judged by.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

STEPS = 52


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained, on which data, and what is reported; a loss as its negative.

    Attributes:
        data: Name of a function of ``sklearn.datasets``; with ``load_`` the data are always the
            same, with ``make_`` each curve may have its own.
        options: Its arguments.
        report: ``accuracy``, ``log loss``, ``squared`` or ``absolute`` error.
        learner: ``network``, ``linear`` by stochastic gradients, or ``boosted`` trees.
        rows: Rows to train on, at most; drawn for each curve where two numbers are given.
        redrawn: Whether data are made anew for each curve.
    """

    data: str
    options: Mapping[str, Any]
    report: str
    learner: str = "network"
    rows: tuple[int, int] = (300, 300)
    redrawn: bool = False

    @property
    def is_regression(self) -> bool:
        """Whether answers are numbers."""
        return self.report in {"squared", "absolute"}


NOISY = {"n_samples": 800, "n_features": 20, "n_informative": 8, "n_classes": 4, "flip_y": 0.15}

TEST: Mapping[str, Task] = {
    "breast cancer": Task(data="load_breast_cancer", options={}, report="accuracy"),
    "noisy": Task(
        data="make_classification", options=NOISY | {"random_state": 5}, report="accuracy"
    ),
    "diabetes": Task(data="load_diabetes", options={}, report="squared"),
    "hastie": Task(
        data="make_hastie_10_2",
        options={"n_samples": 800, "random_state": 6},
        report="log loss",
    ),
    "quantiles": Task(
        data="make_gaussian_quantiles",
        options={"n_samples": 800, "n_features": 6, "n_classes": 3, "random_state": 7},
        report="accuracy",
    ),
    "sparse": Task(
        data="make_sparse_uncorrelated",
        options={"n_samples": 600, "random_state": 8},
        report="absolute",
    ),
    "boosted": Task(data="load_diabetes", options={}, report="squared", learner="boosted"),
}
"""The first three had been looked at before the others were added; those were looked at once, when
``wandering`` was as it is."""

VARIED = {"n_features": 20, "n_informative": 8}

DEVELOPMENT: Mapping[str, Task] = {
    "digits": Task(data="load_digits", options={}, report="accuracy", rows=(60, 900)),
    "digits, loss": Task(data="load_digits", options={}, report="log loss", rows=(60, 900)),
    "wine": Task(data="load_wine", options={}, report="accuracy", rows=(30, 100)),
    "wine, loss": Task(data="load_wine", options={}, report="log loss", rows=(30, 100)),
    "iris": Task(data="load_iris", options={}, report="accuracy", rows=(20, 90)),
    "two classes": Task(
        data="make_classification",
        options=VARIED | {"n_samples": 600, "flip_y": 0.05},
        report="accuracy",
        rows=(60, 400),
        redrawn=True,
    ),
    "six classes": Task(
        data="make_classification",
        options=VARIED | {"n_samples": 1200, "n_classes": 6, "flip_y": 0.2},
        report="accuracy",
        rows=(150, 800),
        redrawn=True,
    ),
    "three classes, loss": Task(
        data="make_classification",
        options=VARIED | {"n_samples": 800, "n_classes": 3, "flip_y": 0.1},
        report="log loss",
        rows=(100, 500),
        redrawn=True,
    ),
    "moons": Task(
        data="make_moons",
        options={"n_samples": 500, "noise": 0.35},
        report="accuracy",
        rows=(50, 300),
        redrawn=True,
    ),
    "circles, loss": Task(
        data="make_circles",
        options={"n_samples": 500, "noise": 0.15, "factor": 0.6},
        report="log loss",
        rows=(50, 300),
        redrawn=True,
    ),
    "friedman 1": Task(
        data="make_friedman1",
        options={"n_samples": 600, "noise": 2.0},
        report="squared",
        rows=(60, 400),
        redrawn=True,
    ),
    "friedman 2": Task(
        data="make_friedman2",
        options={"n_samples": 500, "noise": 100.0},
        report="absolute",
        rows=(60, 300),
        redrawn=True,
    ),
    "regression": Task(
        data="make_regression",
        options={"n_samples": 500, "n_features": 30, "n_informative": 6, "noise": 60.0},
        report="squared",
        rows=(60, 300),
        redrawn=True,
    ),
    "digits, linear": Task(
        data="load_digits", options={}, report="accuracy", learner="linear", rows=(60, 900)
    ),
    "five classes, linear": Task(
        data="make_classification",
        options=VARIED | {"n_samples": 800, "n_classes": 5, "flip_y": 0.1},
        report="log loss",
        learner="linear",
        rows=(100, 500),
        redrawn=True,
    ),
}
"""Sets to choose by."""


def _learner(task: Task, random: np.random.Generator) -> Any:
    networks: Any = importlib.import_module("sklearn.neural_network")
    linear: Any = importlib.import_module("sklearn.linear_model")
    if task.learner == "linear":
        return linear.SGDClassifier(
            loss="log_loss",
            learning_rate=str(random.choice(["constant", "invscaling"])),
            eta0=10 ** random.uniform(-4.5, -0.5),
            alpha=10 ** random.uniform(-6, -1),
            random_state=int(random.integers(2**31)),
        )
    solver = str(random.choice(["adam", "sgd"]))
    fastest, slowest = (-1.5, -4.0) if solver == "adam" else (-0.7, -3.0)
    return (networks.MLPRegressor if task.is_regression else networks.MLPClassifier)(
        hidden_layer_sizes=(int(2 ** random.uniform(3, 7)),) * int(random.integers(1, 3)),
        solver=solver,
        learning_rate_init=10 ** random.uniform(slowest, fastest),
        batch_size=int(2 ** random.integers(5, 8)),
        alpha=10 ** random.uniform(-6, -1),
        momentum=random.uniform(0, 0.95),
        random_state=int(random.integers(2**31)),
    )


def _load(task: Task, random: np.random.Generator) -> tuple[Any, Any]:
    datasets: Any = importlib.import_module("sklearn.datasets")
    options = dict(task.options)
    if task.redrawn:
        options["random_state"] = int(random.integers(2**31))
    if task.data.startswith("load_"):
        options["return_X_y"] = True
    inputs, answers = getattr(datasets, task.data)(**options)
    if task.is_regression:
        answers = (answers - answers.mean()) / answers.std()
    spread = inputs.std(axis=0)
    return (inputs - inputs.mean(axis=0)) / np.where(spread > 0, spread, 1.0), answers


def _score(task: Task, learner: Any, inputs: Any, answers: Any) -> float:
    if task.report == "log loss":
        chances = learner.predict_proba(inputs)
        true = chances[np.arange(len(answers)), np.searchsorted(learner.classes_, answers)]
        return float(np.mean(np.log(np.maximum(true, 1e-12))))
    found = learner.predict(inputs)
    if task.report == "squared":
        return -float(np.mean((found - answers) ** 2))
    if task.report == "absolute":
        return -float(np.mean(np.abs(found - answers)))
    return float(np.mean(found == answers))


def _boosted(random: np.random.Generator, train: Any, valid: Any) -> list[float]:
    ensemble: Any = importlib.import_module("sklearn.ensemble")
    learner = ensemble.GradientBoostingRegressor(
        n_estimators=STEPS,
        learning_rate=10 ** random.uniform(-2, 0),
        max_depth=int(random.integers(1, 6)),
        subsample=random.uniform(0.3, 1),
        random_state=int(random.integers(2**31)),
    )
    learner.fit(*train)
    return [-float(np.mean((f - valid[1]) ** 2)) for f in learner.staged_predict(valid[0])]


def trained(task: Task, count: int, seed: int = 20261) -> list[list[float]]:
    """Curves of learners with random hyperparameters; one that diverges is left out.

    Raises:
        ModuleNotFoundError: scikit-learn is not installed.
    """
    random = np.random.default_rng(seed)
    inputs, answers = _load(task, random)
    curves: list[list[float]] = []
    while len(curves) < count:
        if task.redrawn:
            inputs, answers = _load(task, random)
        order = random.permutation(len(inputs))
        least, most = task.rows
        rows = least if least == most else int(np.exp(random.uniform(np.log(least), np.log(most))))
        cut = min(rows, len(inputs) * 6 // 10)
        train = inputs[order[:cut]], answers[order[:cut]]
        valid = inputs[order[cut:]], answers[order[cut:]]
        if task.learner == "boosted":
            curves.append(_boosted(random, train, valid))
            continue
        learner = _learner(task, random)
        known = {} if task.is_regression else {"classes": np.unique(answers)}
        curve = []
        try:
            for _ in range(STEPS):
                learner.partial_fit(*train, **known)
                curve.append(_score(task, learner, *valid))
        except ValueError:
            continue
        if np.isfinite(curve).all():
            curves.append(curve)
    return curves
