"""The route that imports trials that were run elsewhere."""

from __future__ import annotations

from fastapi import APIRouter

from hpo_ops.client.import_messages import Imported, ImportRequest
from hpo_ops.config import StudyError, parse_study
from hpo_ops.config.study_errors import shown
from hpo_ops.gateway.http._route_dependencies import PEOPLE, CurrentCaller, GatewayServices
from hpo_ops.gateway.services.trial_imports import import_trials

import_router = APIRouter(tags=[PEOPLE])


@import_router.post("/imports")
def create_import(
    request: ImportRequest, caller: CurrentCaller, gateway: GatewayServices
) -> Imported:
    """Records trials run elsewhere as an ended study; a repeated import has no effect."""
    caller.require_person()
    name = request.config.get("name")
    if not isinstance(name, str):
        raise StudyError("import", [f"name is {shown(name)}, but must be the name of a study"])
    # Checked before validation, whose errors could tell callers without rights about the study.
    caller.require_edit_dag(name)
    study = parse_study(request.config, source="import", is_entered=True)
    study.create_scheduler()
    study.create_allocator()
    owner = caller.user.name if caller.user else None
    return import_trials(gateway.studies, study, request, owner=owner)
