"""What Airflow can be configured with, read without importing Airflow."""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import yaml


def unknown_options(names: Iterable[str]) -> list[str]:
    """Returns the variables `AIRFLOW__SECTION__KEY` that Airflow would silently ignore."""
    spec = find_spec("airflow")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "config_templates" / "config.yml"
    sections = yaml.safe_load(path.read_text())
    known = {
        f"AIRFLOW__{section.upper()}__{key.upper()}"
        for section, content in sections.items()
        for key in content["options"]
    }
    return [name for name in names if name.startswith("AIRFLOW__") and name not in known]
