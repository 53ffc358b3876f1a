"""Jobs for tests: the one of the paper, and archives of code."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping
from typing import Any

SAMPLE: Mapping[str, Any] = {
    "model_classname": "Model",
    "module_name": "train",
    "package_name": "modelpkg",
    "hp_ranges": {
        "optimizer": ["adam", "sgd", "rmsprop"],
        "pca_components": [50, 51, 52],
        "num_layers": [1, 2, 3, 4],
        "lr": [1e-3, 5e-3, 1e-4],
    },
    "strategy": "RANDOM",
    "num_iterations": 150,
    "jobname": "SampleModel",
    "parallelism_fact": 8,
    "compute": "gpu",
    "file_name": "/sample_model.tar.gz",
    "cpu_per_pod": "5",
    "memory_per_pod": "100000Mi",
    "gpu_per_pod": "1",
}
"""Figure 2 of the paper, as it must have been before it was scanned."""

MODEL = """
class Model:
    def score(self, hyperparameters, checkpoint_path, resume):
        return hyperparameters["x"] * 10 + hyperparameters["y"]
"""
CODE = {
    "setup.py": "from setuptools import setup\nsetup(name='modelpkg', packages=['modelpkg'])\n",
    "modelpkg/__init__.py": "",
    "modelpkg/train.py": MODEL,
}


def archive(
    files: Mapping[str, str] = CODE,
    *,
    prefix: str = "",
    with_folders: bool = True,
    others: Iterable[tarfile.TarInfo] = (),
    mode: str = "w:gz",
) -> bytes:
    """A code archive as `tar czf` makes it, folders included."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as made:  # type: ignore[call-overload]
        folders = {name.rpartition("/")[0] for name in files} if with_folders else set()
        for folder in sorted(folders):
            item = tarfile.TarInfo(f"{prefix}{folder}")
            item.type = tarfile.DIRTYPE
            made.addfile(item)
        for name, text in files.items():
            item = tarfile.TarInfo(f"{prefix}{name}")
            item.size = len(text.encode())
            made.addfile(item, io.BytesIO(text.encode()))
        for item in others:
            made.addfile(item)
    return packed.getvalue()
