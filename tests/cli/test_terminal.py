"""Reasons, names and parameters that others wrote cannot command the terminal."""

from __future__ import annotations

import json

import pytest
from rich.table import Table

from hpo_ops.cli.terminal import out, print_json

HOSTILE = "\x1b[2J\x1b]8;;http://evil\x1b\\ [link=http://evil]x[/link] [/bold] \x9b1A"


def test_text_of_others_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    out.print(f"Ended: {HOSTILE}", soft_wrap=True)
    table = Table(box=None)
    table.add_column("Reason", overflow="fold")
    table.add_row(HOSTILE)
    out.print(table, width=200)
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "\x9b" not in text
    assert text.count("\\x1b[2J") == 2
    assert text.count("[link=http://evil]x[/link] [/bold]") == 2


def test_json_stays_exact(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"reason": HOSTILE})
    assert json.loads(capsys.readouterr().out) == {"reason": HOSTILE}
