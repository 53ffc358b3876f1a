"""``hpo validate``: checks study files without running them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpo_ops.cli.terminal import Json, err, out, print_json
from hpo_ops.config import StudyError, load_study


def validate(
    files: Annotated[list[Path], typer.Argument(help="Study files.")], as_json: Json = False
) -> None:
    """Checks study files and lists all problems of each file.

    The exit code is 1 if a file has a problem.
    """
    problems_by_file: dict[str, list[str]] = {}
    for file in files:
        try:
            load_study(file)
            problems_by_file[str(file)] = []
        except StudyError as error:
            problems_by_file[str(file)] = error.problems
    if as_json:
        print_json(problems_by_file)
    for file_name, problems in problems_by_file.items():
        if not as_json and not problems:
            out.print(f"{file_name}: ok")
        for problem in problems if not as_json else []:
            err.print(f"{file_name}: {problem}", soft_wrap=True)
    if any(problems_by_file.values()):
        raise typer.Exit(1)
