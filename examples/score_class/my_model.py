"""Tells handwritten digits apart; knows nothing of the platform."""

from pathlib import Path

import joblib
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

EPOCHS = 20


class Model:
    def score(self, hyperparameters, checkpoint_path, resume):
        x, y = load_digits(return_X_y=True)
        train, valid = slice(0, 1400), slice(1400, None)
        model, epoch = SGDClassifier(**hyperparameters, random_state=0), 0
        if resume:
            newest = max(int(path.parent.name) for path in checkpoint_path.glob("*/COMPLETE"))
            model = joblib.load(checkpoint_path / f"{newest}/model")
            epoch = newest
        while epoch < EPOCHS:
            epoch += 1
            model.partial_fit(x[train] / 16, y[train], classes=range(10))
            save(checkpoint_path / str(epoch), model)
            yield epoch, {"accuracy": model.score(x[valid] / 16, y[valid])}


def save(folder: Path, model: SGDClassifier) -> None:
    folder.mkdir(exist_ok=True)
    joblib.dump(model, folder / "model")
    (folder / "COMPLETE").touch()  # comes last: from now on the checkpoint counts
