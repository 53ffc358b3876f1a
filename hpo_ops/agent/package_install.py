"""Installs the packages that a study's code needs and that the training's image lacks.

This file is copied into the workspace and runs in the training's container, so it uses only the
standard library. Its file names are those of hpo_ops.protocol.Workspace.

``pip --target`` would install packages again that the image already has, such as torch. Therefore
pip installs into a virtual environment that includes the image's packages, and the package folder
of that environment is added to the training's PYTHONPATH.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path


def install(root: Path, arguments: list[str]) -> int:
    """Installs packages and links their folder as ``packages`` in the workspace.

    Args:
        root: The workspace's directory.
        arguments: Arguments of ``pip install``.

    Returns:
        pip's exit code; 128 plus the signal's number if a signal ended pip.
    """
    environment = root / "environment"
    venv.create(environment, system_site_packages=True, symlinks=True, with_pip=False, clear=True)
    python = environment / "bin" / "python"
    folder = Path(_ask(python, "import sysconfig; print(sysconfig.get_path('purelib'))"))
    # If the image's Python is itself in a virtual environment, the new environment would include
    # only the packages of the base Python.
    image = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (folder / "image.pth").write_text("\n".join(sorted(image)) + "\n", encoding="utf-8")
    packages = root / "packages"
    packages.unlink(missing_ok=True)
    packages.symlink_to(folder)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    options = ["--disable-pip-version-check", "--no-cache-dir", "--no-input"]
    with (root / "packages.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603, packages that the study's code needs
            [*pip, *options, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for line in process.stdout or ():
            log.write(line)
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    code = process.wait()
    return code if code >= 0 else 128 - code  # after a signal, the same code as a shell's


def _ask(python: Path, program: str) -> str:
    answer = subprocess.run(  # noqa: S603, the Python of the new environment
        [str(python), "-c", program], check=True, capture_output=True, text=True
    )
    return answer.stdout.strip()


if __name__ == "__main__":
    # The first process of a container is not ended by a signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(install(Path(os.environ["HPO_DIR"]), sys.argv[1:]))
