"""The platform's own container images, as the environment names them."""

from __future__ import annotations

from collections.abc import Mapping

AGENT_IMAGE_VARIABLE, TRAINING_IMAGE_VARIABLE = "HPO_AGENT_IMAGE", "HPO_TRAINING_IMAGE"
AGENT_IMAGE = "hpo-ops:latest"


def agent_image(environment: Mapping[str, str]) -> str:
    """The image with this package, in which agents run."""
    return environment.get(AGENT_IMAGE_VARIABLE) or AGENT_IMAGE


def training_image(environment: Mapping[str, str]) -> str:
    """The image of trainings whose study names none."""
    return environment.get(TRAINING_IMAGE_VARIABLE) or agent_image(environment)
