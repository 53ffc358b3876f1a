"""The image with the present hpo_ops: one thin layer on top of the base, made in seconds."""

from __future__ import annotations

import compileall
import py_compile
import shutil
import sys
from pathlib import Path

from tests.cluster.build import BASE_CONFIG, read_base
from tests.cluster.layout import IMAGE, PROJECT, Cache
from tests.cluster.oci import pack, write_image

_PACKAGES = "usr/local/lib/python3.11/dist-packages"
_IMAGE_PYTHON = (3, 11)


def write_present_image(cache: Cache, folder: Path) -> tuple[str, Path]:
    """Writes an image of hpo_ops as it is now; its tag is the hash of the code.

    Args:
        cache: Where the base is.
        folder: Where to write.

    Returns:
        The image's name and its archive, which is for stores that have the base.
    """
    packages = folder / "packages"
    shutil.copytree(
        PROJECT / "hpo_ops",
        packages / "hpo_ops",
        ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
    )
    if sys.version_info[:2] == _IMAGE_PYTHON:
        # Else each container compiles what it imports.
        compileall.compile_dir(
            packages,
            quiet=2,
            stripdir=packages,
            prependdir=f"/{_PACKAGES}",
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
    layer = pack(packages, folder / "layer.tar", at=_PACKAGES)
    name = f"{IMAGE}:{layer.digest[:12]}"
    archive = folder / "image.tar"
    write_image(archive, name=name, layers=[read_base(cache), layer], config=BASE_CONFIG)
    return name, archive
