"""Installs what the code needs, in a training image of any kind: copied there, and run by path.

It brings no more than what the image lacks, torch least of all; ``pip --target`` would bring
everything again. So pip installs into an environment that sees the image's packages, and the
training gets the folder of that environment in PYTHONPATH.
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
    """Installs into ``packages`` of the workspace; returns pip's exit code."""
    environment = root / "environment"
    venv.create(environment, system_site_packages=True, symlinks=True, with_pip=False, clear=True)
    python = environment / "bin" / "python"
    folder = Path(_ask(python, "import sysconfig; print(sysconfig.get_path('purelib'))"))
    # Where the image's Python is itself in an environment, the new one sees the Python below it.
    image = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (folder / "image.pth").write_text("\n".join(sorted(image)) + "\n", encoding="utf-8")
    packages = root / "packages"
    packages.unlink(missing_ok=True)
    packages.symlink_to(folder)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    options = ["--disable-pip-version-check", "--no-cache-dir", "--no-input"]
    with (root / "packages.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603, what the study's code asks for
            [*pip, *options, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for line in process.stdout or ():
            log.write(line)
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    code = process.wait()
    return code if code >= 0 else 128 - code  # killed: as a shell has it


def _ask(python: Path, program: str) -> str:
    answer = subprocess.run(  # noqa: S603, the Python that was just put there
        [str(python), "-c", program], check=True, capture_output=True, text=True
    )
    return answer.stdout.strip()


if __name__ == "__main__":
    # The first process of a container is not ended by a signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(install(Path(os.environ["HPO_DIR"]), sys.argv[1:]))
