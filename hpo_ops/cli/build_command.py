"""``hpo build``: an image with the code of a study and all that it needs."""

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
from hpo_ops.runners.kubernetes.pod_spec import training_image

BUILDERS = {"docker": "build", "podman": "build", "buildah": "bud"}
"""Programs that build images, in the order of preference, and how each calls it."""
HAS_USER = "python -c 'import pwd; pwd.getpwuid(1000)'"
PIP = ["python", "-m", "pip", "install", "--no-cache-dir", "--disable-pip-version-check"]


def build(
    file: Annotated[Path, typer.Argument(help="A study file.")],
    tag: Annotated[
        str | None, typer.Option("--tag", "-t", help="Name of the image; by default of its code.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="Image to start from; by default that of the study, or the platform's."),
    ] = None,
    with_: Annotated[
        str | None,
        typer.Option("--with", help=f"{', '.join(BUILDERS)}; by default the first that is here."),
    ] = None,
    is_pushed: Annotated[bool, typer.Option("--push", help="Push it; needs --tag.")] = False,
    is_printed: Annotated[
        bool, typer.Option("--print", help="Print the Dockerfile and build nothing.")
    ] = False,
) -> None:
    """Builds an image with the code of a study and what it needs, for pods that start at once."""
    study = load_study(file)
    if study.code is None:
        raise CommandError(f"{file} has no code: {study.image} is used as it is")
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
    with tempfile.TemporaryDirectory(prefix="hpo-build-") as place:
        recipe, context = Path(place, "Dockerfile"), Path(place, "code")
        recipe.write_text(text, encoding="utf-8")
        copy_code(folder, context)
        made = ["--tag", name, "--file", str(recipe), str(context)]
        _call([builder, BUILDERS[Path(builder).name], *made])
    if is_pushed:
        _call([builder, "push", name])
    print(advice(study, file, name))


def dockerfile(study: StudyConfig, base: str, packages: Sequence[str]) -> str:
    """The recipe of a study's image: base, code, what the code needs, and a user without rights.

    It also works in the code folder itself.
    """
    lines = [
        f"# The image of the study {study.name}, as `hpo build` makes it.",
        f"FROM {base}",
        "USER root",
        f"RUN {HAS_USER} 2>/dev/null || useradd --create-home --uid 1000 hpo",
        "WORKDIR /srv/code",
        "COPY --chown=1000:1000 . .",
        # Debian's Python takes packages only when told so, here by a variable of the build.
        *(["ARG PIP_BREAK_SYSTEM_PACKAGES=1"] if packages else []),
        *([f"RUN {json.dumps([*PIP, *packages])}"] if packages else []),
        "USER 1000",
        f"CMD {json.dumps(shlex.split(study.command))}",
    ]
    return "\n".join(lines) + "\n"


def default_tag(name: str, folder: Path) -> str:
    """A name for the image of a folder: another one as soon as its code is another."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return f"{plain}:{hash_code(folder)[:12]}"


def find_builder(wanted: str | None) -> str:
    """A program that builds images.

    Args:
        wanted: Its name; None takes the first that is here.

    Raises:
        CommandError: It is not here, or none is.
    """
    if wanted is not None and wanted not in BUILDERS:
        raise CommandError(f"--with is {wanted!r}, but must be one of {', '.join(BUILDERS)}")
    names = [wanted] if wanted else list(BUILDERS)
    for name in names:
        if found := shutil.which(name):
            return found
    raise CommandError(
        f"there is nothing here to build images with: {', '.join(names)} looked for in "
        "PATH; --print writes the Dockerfile for a machine that has one"
    )


def advice(study: StudyConfig, file: Path, image: str) -> str:
    """What to write into the study, so that its pods take the image."""
    needs_code = study.stop.when is not None or bool(study.finalizers)
    lines = [f"image: {image}"]
    if study.runner == "local":
        lines.append("runner: kubernetes")
    if needs_code:  # tasks of Airflow's call functions in it
        lines.append("install: false")
    place = "beside code" if needs_code else "in the place of code"
    return "\n".join([f"Built {image}. Put into {file}, {place}:", *(f"  {it}" for it in lines)])


def _call(command: list[str]) -> None:
    done = subprocess.run(command, check=False)  # noqa: S603, a program that was just found
    if done.returncode:
        raise CommandError(f"{shlex.join(command[:2])} failed with exit code {done.returncode}")
