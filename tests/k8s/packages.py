"""A training that needs a package, and that package as a wheel: pods reach no index."""

from __future__ import annotations

import zipfile
from pathlib import Path

NEEDS = """
import numpy, tiny_need
from hpo_ops.sdk import trial
at = "the image" if "/hpo/" not in numpy.__file__ else "its own"
print("tiny_need", tiny_need.VERSION, "and numpy of", at)
for step in trial.steps(9):
    trial.report(step, accuracy=0.5)
"""


def write_wheel(folder: Path, package: str, version: str) -> None:
    info = f"{package}-{version}.dist-info"
    files = {
        f"{package}.py": f'VERSION = "{version}"\n',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{package}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
