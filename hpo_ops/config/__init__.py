"""The study file: its model, checks, error messages and JSON Schema."""

from hpo_ops.config.pod_sections import Pod, Resources
from hpo_ops.config.sections import Flow, Policy
from hpo_ops.config.study_changes import CHANGEABLE, OVERRIDABLE
from hpo_ops.config.study_config import (
    GENERIC_CEILING,
    StudyConfig,
)
from hpo_ops.config.study_errors import StudyError
from hpo_ops.config.study_loading import load_study, parse_study, read_entered, with_code_path

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
