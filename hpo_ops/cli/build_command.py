"""``hpo build``: builds an image with a study's code and the packages that the code needs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hpo_ops.checkpoints import BadCodeError, copy_code, find_packages, hash_code
from hpo_ops.cli.command_errors import CommandError
from hpo_ops.config import StudyConfig, load_study
from hpo_ops.config.runner_registry import find_runner, image_runners
from hpo_ops.runners.platform_images import training_image

BUILDERS = {"docker": "build", "podman": "build", "buildah": "bud"}
"""Programs that build images, in order of preference, each with the name of its build command."""
HAS_USER = "python -c 'import pwd; pwd.getpwuid(1000)'"
PIP = ["python", "-m", "pip", "install", "--no-cache-dir", "--disable-pip-version-check"]


def build(
    file: Annotated[Path, typer.Argument(help="A study file.")],
    tag: Annotated[
        str | None,
        typer.Option(
            "--tag", "-t", help="Name of the image; by default the study's name and code hash."
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="Base image; by default the study's `image`, or the platform's image."),
    ] = None,
    with_: Annotated[
        str | None,
        typer.Option(
            "--with",
            help=f"Program to build with: {', '.join(BUILDERS)}; by default the first in PATH.",
        ),
    ] = None,
    is_pushed: Annotated[
        bool, typer.Option("--push", help="Push the image to its registry; needs --tag.")
    ] = False,
    is_printed: Annotated[
        bool, typer.Option("--print", help="Print the Dockerfile and build nothing.")
    ] = False,
) -> None:
    """Builds an image with a study's code and its packages, so that pods install nothing."""
    study = load_study(file)
    if study.code is None:
        raise CommandError(
            f"{file} has no code, so there is nothing to build: its image {study.image} is used"
        )
    if is_pushed and tag is None:
        raise CommandError("--push needs --tag with your registry: registry.example.org/me/it:1")
    folder = Path(study.code)
    try:
        packages = find_packages(folder)
    except BadCodeError as error:
        raise CommandError(str(error)) from error
    text = dockerfile(study, base or study.image or training_image(os.environ), packages)
    if is_printed:
        print(text, end="")
        return
    name = tag or default_tag(study.name, folder)
    builder = find_builder(with_)
    with tempfile.TemporaryDirectory(prefix="hpo-build-") as temporary:
        recipe, context = Path(temporary, "Dockerfile"), Path(temporary, "code")
        recipe.write_text(text, encoding="utf-8")
        copy_code(folder, context)
        made = ["--tag", name, "--file", str(recipe), str(context)]
        _call([builder, BUILDERS[Path(builder).name], *made])
    if is_pushed:
        _call([builder, "push", name])
    print(advice(study, file, name))


def dockerfile(study: StudyConfig, base: str, packages: Sequence[str]) -> str:
    """Returns a Dockerfile that adds a study's code, packages and a non-root user to an image.

    The build context is the code folder, so the Dockerfile can also be built there by hand.

    Args:
        study: The study.
        base: The name of the base image.
        packages: The arguments of ``pip install``; empty if no packages are installed.
    """
    lines = [
        f"# The image of the study {study.name}, as `hpo build` makes it.",
        f"FROM {base}",
        "USER root",
        f"RUN {HAS_USER} 2>/dev/null || useradd --create-home --uid 1000 hpo",
        "WORKDIR /srv/code",
        "COPY --chown=1000:1000 . .",
        # Debian's Python refuses to install packages without this build argument.
        *(["ARG PIP_BREAK_SYSTEM_PACKAGES=1"] if packages else []),
        *([f"RUN {json.dumps([*PIP, *packages])}"] if packages else []),
        "USER 1000",
        f"CMD {json.dumps(shlex.split(study.command))}",
    ]
    return "\n".join(lines) + "\n"


def default_tag(name: str, folder: Path) -> str:
    """Returns an image tag with the study's name and the code's hash: new code gets a new tag."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return f"{plain}:{hash_code(folder)[:12]}"


def find_builder(wanted: str | None) -> str:
    """Finds a program that builds images, and returns its path.

    Args:
        wanted: The program's name; None for the first of `BUILDERS` that is in PATH.

    Raises:
        CommandError: The wanted program is not in `BUILDERS` or not in PATH, or no program in
            `BUILDERS` is in PATH.
    """
    if wanted is not None and wanted not in BUILDERS:
        raise CommandError(f"--with is {wanted!r}, but must be one of {', '.join(BUILDERS)}")
    names = [wanted] if wanted else list(BUILDERS)
    for name in names:
        if found := shutil.which(name):
            return found
    raise CommandError(
        f"no program to build images was found in PATH (looked for {', '.join(names)}): install "
        "one, or print the Dockerfile with --print and build it on another machine"
    )


def advice(study: StudyConfig, file: Path, image: str) -> str:
    """Returns a message with the lines to write into the study file to use the built image."""
    needs_code = study.stop.when is not None or bool(study.finalizers)
    lines = [f"image: {image}"]
    if not find_runner(study.runner).runs_images:
        first, *others = image_runners()
        choice = f"  # or {', '.join(others)}" if others else ""
        lines.append(f"runner: {first}{choice}")
    if needs_code:  # Airflow's tasks call functions of the code, so the key `code` stays
        lines.append("install: false")
    where = "beside code" if needs_code else "instead of code"
    return "\n".join(
        [f"Built {image}. Put into {file}, {where}:", *(f"  {line}" for line in lines)]
    )


def _call(command: list[str]) -> None:
    done = subprocess.run(command, check=False)  # noqa: S603, a program that was just found
    if done.returncode:
        raise CommandError(f"{shlex.join(command[:2])} failed with exit code {done.returncode}")
