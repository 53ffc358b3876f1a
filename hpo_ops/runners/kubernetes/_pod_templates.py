"""Reads pod templates, which are files of the platform's operator."""

from __future__ import annotations

import os
from pathlib import Path

import yaml
from airflow.sdk.exceptions import AirflowFailException

from hpo_ops.airflow.trigger_form import dags_folder
from hpo_ops.config import Pod, Resources
from hpo_ops.runners.kubernetes._pod_spec import template_name
from hpo_ops.runners.kubernetes._segment_pod import Spec

TEMPLATES_VARIABLE = "HPO_POD_TEMPLATES"


def read_template(resources: Resources, pod: Pod) -> Spec:
    """Reads the file of a study's pod template: ``pod.template``, or else that of its pool.

    Raises:
        AirflowFailException: The file cannot be read, or does not contain a pod.
    """
    given = os.environ.get(TEMPLATES_VARIABLE)
    folder = Path(given) if given else dags_folder().parent / "k8s_pod_templates"
    path = folder / f"{template_name(resources, pod)}.yaml"
    try:
        template = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        known = ", ".join(sorted(file.stem for file in folder.glob("*.yaml"))) or "none"
        raise AirflowFailException(
            f"the pod template {path} cannot be read ({error}); there are: {known}"
        ) from error
    if not isinstance(template, dict) or template.get("kind") != "Pod":
        raise AirflowFailException(f"the pod template {path} has no Kubernetes object of kind Pod")
    return template
