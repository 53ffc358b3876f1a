"""The software of a training: its interpreter, the packages that it has imported, its GPUs."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

from hpo_ops.protocol import Provenance

MOST_PACKAGES = 300


def find_software() -> Provenance:
    """The software of this process, as far as it is imported by now."""
    return Provenance(
        python=platform.python_version(), packages=find_packages(), devices=find_devices()
    )


def find_packages() -> dict[str, str]:
    """Versions of the imported packages, without the standard library."""
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
    """Names of the GPUs, if torch uses them."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
