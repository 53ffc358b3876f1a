"""The study file, which configures one hyperparameter search: model, checks and messages."""

from hpo_ops.config._sections import Flow, Policy
from hpo_ops.config._study_changes import CHANGEABLE, OVERRIDABLE
from hpo_ops.config._study_config import (
    GENERIC_CEILING,
    StudyConfig,
)
from hpo_ops.config._study_loading import load_study, parse_study, read_entered, with_code_path
from hpo_ops.config.pod_sections import Pod, Resources
from hpo_ops.config.study_errors import StudyError

__all__ = [
    "CHANGEABLE",
    "GENERIC_CEILING",
    "OVERRIDABLE",
    "Flow",
    "Pod",
    "Policy",
    "Resources",
    "StudyConfig",
    "StudyError",
    "load_study",
    "parse_study",
    "read_entered",
    "with_code_path",
]
