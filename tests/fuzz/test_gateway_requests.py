"""Requests made from the gateway's own OpenAPI, valid and invalid, by callers of every kind.

No request is answered by a 5xx, by a traceback or with SQL; and callers without the right to
change anything change nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode

from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.http.gateway_app import create_app
from hpo_ops.ledger import Ledger
from tests.fuzz.conftest import Fuzz
from tests.fuzz.gateway_target import Target, log_in
from tests.gateway.web import SECRET

NO_ANSWER = {"401", "no route", "not HTTP"}
"""What somebody without a credential gets."""


def operations() -> dict[str, Any]:
    """Every operation of the OpenAPI, by method and path."""
    app = create_app(Gateway.on_ledger(cast(Ledger, None), SECRET), login=log_in)
    schema = schemathesis.openapi.from_dict(app.openapi())
    found = (result.ok() for result in schema.get_all_operations())
    return {operation.label: operation for operation in found}


OPERATIONS = operations()


def cases(operation: Any, known: dict[str, Any]) -> st.SearchStrategy[Case]:
    """Valid and invalid requests; about half of them name a study or segment that exists."""
    path = {name: known[name] for name in known if f"{{{name}}}" in operation.path}
    modes = [GenerationMode.POSITIVE]
    if operation.body or operation.query or path.keys() - {"segment", "name"}:
        modes.append(GenerationMode.NEGATIVE)
    made = [operation.as_strategy(generation_mode=mode) for mode in modes]
    if path:
        valid = GenerationMode.POSITIVE
        made.append(operation.as_strategy(generation_mode=valid, path_parameters=path))
        if operation.body or operation.query:
            invalid = GenerationMode.NEGATIVE
            made.append(operation.as_strategy(generation_mode=invalid, path_parameters=path))
    return st.one_of(made)


@pytest.mark.fuzz(30, senders=5)
@pytest.mark.parametrize("label", OPERATIONS)
def test_callers_without_the_right_change_nothing(
    target: Target, fuzz: Fuzz[Case], label: str
) -> None:
    before = target.contents()
    callers = ("nobody", "stranger", "viewer", "another agent", "another task")

    def check(case: Case) -> Counter[str]:
        seen = [target.send(case, caller) for caller in callers]
        assert seen[0] in NO_ANSWER, f"nobody: {seen[0]}"
        return Counter(seen)

    fuzz(cases(OPERATIONS[label], target.known), check)
    assert target.contents() == before


@pytest.mark.fuzz(12, senders=3)
@pytest.mark.parametrize("label", OPERATIONS)
def test_callers_with_the_right_get_an_answer(
    target: Target, fuzz: Fuzz[Case], label: str
) -> None:
    def check(case: Case) -> Counter[str]:
        return Counter(target.send(case, caller) for caller in ("agent", "owner", "task"))

    fuzz(cases(OPERATIONS[label], target.known), check)
