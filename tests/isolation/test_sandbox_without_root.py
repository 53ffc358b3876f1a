"""The sandbox of a platform that is not root, as in the container image.

The platform is a process of another user, run by a Python that this user can reach.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOM = Path(__file__).parents[2] / "hpo_ops" / "isolation"
USER = 65431
SECRET = "the-secret-of-the-platform"  # noqa: S105
PLATFORM = """
import os, sys
from pathlib import Path
from hpo_ops.isolation.function_calls import call_function
Path("secrets").write_text("the-secret-of-the-platform")
Path("secrets").chmod(0o600)
given = [os.getpid(), os.getcwd()]
print(call_function("stop.when", "theirs:spy", given, code=Path("code").resolve()))
"""
THEIRS = """
import os
from pathlib import Path
def spy(given):
    pid, folder = given
    found = [str(dict(os.environ)), f"user {os.getuid()}"]
    for name in (f"/proc/{pid}/environ", f"{folder}/secrets", f"/proc/{pid}/mem"):
        try:
            found.append(Path(name).read_bytes()[:4000].decode(errors="replace"))
        except OSError:
            found.append("refused")
    try:
        Path(folder, "outside").write_text("was here")
    except OSError:
        found.append("refused")
    try:
        os.kill(pid, 9)
    except OSError:
        found.append("refused")
    return "\\n".join(found)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of the platform's, with the room and its users' code."""
    path = Path(tempfile.mkdtemp(prefix="hpo-without-root-"))
    shutil.copytree(ROOM, path / "lib" / "hpo_ops" / "isolation")
    (path / "lib" / "hpo_ops" / "__init__.py").touch()
    (path / "code").mkdir()
    (path / "code" / "theirs.py").write_text(THEIRS)
    for item in (path, *path.rglob("*")):
        os.chown(item, USER, USER)
    yield path
    shutil.rmtree(path)


def reachable_python() -> str | None:
    """A Python that another user can run; the tests' own may be in root's home."""
    for program in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        check = "import sys; sys.exit(sys.version_info < (3, 11))"
        try:
            done = subprocess.run([program, "-c", check], user=USER, group=USER, cwd="/")
        except OSError:
            continue
        if done.returncode == 0:
            return program
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(
    int(ctypes.CDLL(None).syscall(444, None, 0, 1)) < 6, reason="the kernel has no Landlock"
)
def test_users_code_of_the_same_user_gets_nothing_of_the_platforms(folder: Path) -> None:
    python = reachable_python()
    if python is None:
        pytest.skip("no Python 3.11 that another user can run")
    done = subprocess.run(
        [python, "-c", PLATFORM],
        env={"PYTHONPATH": str(folder / "lib"), "PATH": os.defpath, "HPO_GATEWAY_SECRET": SECRET},
        cwd=folder,
        user=USER,
        group=USER,
        extra_groups=[],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert f"user {USER}" in done.stdout
    assert SECRET not in done.stdout
    assert done.stdout.count("refused") == 5
    assert not (folder / "outside").exists()
