"""Finds the Python version, imported packages and GPUs of the training process."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

from hpo_ops.protocol import Provenance

MOST_PACKAGES = 300


def find_software() -> Provenance:
    """Returns the Python version, the imported packages and the GPUs of this process."""
    return Provenance(
        python=platform.python_version(), packages=find_packages(), devices=find_devices()
    )


def find_packages() -> dict[str, str]:
    """Returns the versions of the imported packages by name, without the standard library."""
    names = {name.partition(".")[0] for name in tuple(sys.modules)}
    found = {}
    for name in sorted(names - set(sys.stdlib_module_names)):
        if not name.startswith("_") and (version := _version(name)):
            found[name] = version
    return dict(list(found.items())[:MOST_PACKAGES])


def _version(name: str) -> str | None:
    said = getattr(sys.modules.get(name), "__dict__", {}).get("__version__")
    if isinstance(said, str):
        return said
    try:
        return metadata.version(name)
    except (metadata.PackageNotFoundError, ValueError):
        return None


def find_devices() -> list[str]:
    """Returns the names of the GPUs; an empty list if torch has not initialised CUDA."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
