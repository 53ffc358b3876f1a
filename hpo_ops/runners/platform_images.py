"""Reads the names of the platform's own container images from environment variables."""

from __future__ import annotations

from collections.abc import Mapping

AGENT_IMAGE_VARIABLE, TRAINING_IMAGE_VARIABLE = "HPO_AGENT_IMAGE", "HPO_TRAINING_IMAGE"
AGENT_IMAGE = "hpo-ops:latest"


def agent_image(environment: Mapping[str, str]) -> str:
    """Returns the name of the image that contains this package and in which agents run."""
    return environment.get(AGENT_IMAGE_VARIABLE) or AGENT_IMAGE


def training_image(environment: Mapping[str, str]) -> str:
    """Returns the name of the image for trainings of studies that do not name an image."""
    return environment.get(TRAINING_IMAGE_VARIABLE) or agent_image(environment)
