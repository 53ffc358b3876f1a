"""What the trials of a study are made from: code and image."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hpo_ops.checkpoints import hash_code
from hpo_ops.client import Origin
from hpo_ops.config import StudyConfig
from hpo_ops.runners.pods import training_image


def find_origin(config: StudyConfig, environment: Mapping[str, str]) -> Origin:
    """The origin of a study's trials.

    Args:
        config: The study.
        environment: Says which image is the platform's.

    Raises:
        BadCodeError: The code folder is empty, or too large to be code.
    """
    is_pod = config.runner == "kubernetes"
    return Origin(
        code_hash=None if config.code is None else hash_code(Path(config.code)),
        image=(config.image or training_image(environment)) if is_pod else None,
    )
