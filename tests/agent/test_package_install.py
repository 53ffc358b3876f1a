"""Packages for the training, installed as in a pod, by this machine's pip without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import hpo_ops.agent

AGENT = Path(hpo_ops.agent.__file__).parent
PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "a-model"
version = "1.0"
dependencies = ["obstore"]
[tool.setuptools]
package-dir = {"" = "src"}
"""


def run(root: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        env={**os.environ, "HPO_DIR": str(root), "PIP_NO_BUILD_ISOLATION": "0"},
        cwd=root / "code",
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def workspace(folder: Path) -> Path:
    source = folder / "code" / "src" / "a_model"
    source.mkdir(parents=True)
    (source / "__init__.py").write_text("print('imported')")
    (folder / "code" / "pyproject.toml").write_text(PROJECT)
    return folder


def test_a_project_is_installed_and_the_training_finds_it(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    done = run(root, sys.executable, AGENT / "package_install.py", ".")
    assert (done.returncode, done.stdout) == (0, "")
    # What the image has is not brought again.
    assert not list((root / "packages").glob("obstore*"))
    trained = run(root, "sh", AGENT / "run.sh", sys.executable, "-c", "import a_model")
    assert trained.stdout == "imported\n"


def test_a_package_that_is_not_there_ends_with_pips_words(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    done = run(root, sys.executable, AGENT / "package_install.py", "--no-index", "no-such-package")
    assert done.returncode == 1
    last = "ERROR: No matching distribution found for no-such-package"
    assert done.stdout.splitlines()[-1] == last
    assert (root / "packages.log").read_text().splitlines()[-1] == last
