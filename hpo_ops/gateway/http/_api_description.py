"""Renders the HTML page that describes the API; the page loads nothing from other hosts."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import Any

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem }
table { border-collapse: collapse; width: 100% }
td { border-top: 1px solid #ddd; padding: .35rem .6rem; vertical-align: top }
code { font-size: 13px } .GET { color: #06c } .POST { color: #080 }
"""
STYLE_SOURCE = f"'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"
"""Hash of the page's style sheet, by which the content security policy allows only this style."""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{style}</style></head>
<body><h1>{title}</h1>
<p>Version {version}. Every request needs a token: <code>Authorization: Bearer ...</code>.
As OpenAPI: <a href="openapi.json">openapi.json</a>.</p>{sections}</body></html>"""


def describe(api: dict[str, Any]) -> str:
    """Renders an OpenAPI description as HTML: a table of routes for each kind of caller."""
    sections: dict[str, list[str]] = {}
    for path, methods in api["paths"].items():
        for method, route in methods.items():
            name = method.upper()
            rows = sections.setdefault(route.get("tags", ["other"])[0], [])
            rows.append(
                f'<tr><td class="{name}"><b>{name}</b></td><td><code>{escape(path)}</code></td>'
                f"<td>{escape(route.get('description', ''))}</td></tr>"
            )
    body = "".join(
        f"<h2>For {escape(tag)}</h2><table>{''.join(rows)}</table>"
        for tag, rows in sections.items()
    )
    info = api["info"]
    return _PAGE.format(
        title=escape(info["title"]),
        version=escape(info["version"]),
        style=_STYLE,
        sections=body,
    )
