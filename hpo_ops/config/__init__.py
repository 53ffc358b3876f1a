"""The study file: models, errors that name the key, JSON Schema."""

from hpo_ops.config.changes import CHANGEABLE, OVERRIDABLE
from hpo_ops.config.errors import StudyError
from hpo_ops.config.load import load_study, parse_study, with_code_path
from hpo_ops.config.pods import Pod, Resources
from hpo_ops.config.sections import Policy
from hpo_ops.config.study import (
    GENERIC_CEILING,
    GENERIC_DAGS,
    Flow,
    StudyConfig,
)

__all__ = [
    "CHANGEABLE",
    "GENERIC_CEILING",
    "GENERIC_DAGS",
    "OVERRIDABLE",
    "Flow",
    "Pod",
    "Policy",
    "Resources",
    "StudyConfig",
    "StudyError",
    "load_study",
    "parse_study",
    "with_code_path",
]
