"""An auth manager for tests that tells DAGs apart, which Airflow's simple one does not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser


class DagRightsAuthManager(SimpleAuthManager):
    """Airflow's simple auth manager, with a list of DAGs for each user on top of their role.

    Args:
        dags: The DAGs that a user has any right on, by user name; the role says which rights.
    """

    def __init__(self, dags: Mapping[str, Collection[str]]) -> None:
        super().__init__()
        self.dags = dags

    def is_authorized_dag(
        self,
        *,
        method: Any,
        user: SimpleAuthManagerUser,
        access_entity: Any = None,
        details: DagDetails | None = None,
    ) -> bool:
        has_dag = details is None or details.id in self.dags.get(user.username, ())
        return has_dag and super().is_authorized_dag(
            method=method, user=user, access_entity=access_entity, details=details
        )
