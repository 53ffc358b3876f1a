"""An example of what comes after a study: runs whenever `digits` has published a best model."""

from typing import Any

from airflow.sdk import DAG, Asset, task

with DAG(
    dag_id="hpo_downstream_example",
    schedule=[Asset(name="hpo/digits/best", uri="hpo://digits/best")],
    catchup=False,
    tags=["hpo", "example"],
    doc_md=__doc__,
):

    @task
    def deploy(triggering_asset_events: Any = None) -> dict[str, Any]:
        """Takes the newest event's best trial; a real DAG would deploy its checkpoint."""
        newest = max(
            (event for events in triggering_asset_events.values() for event in events),
            key=lambda event: event.timestamp,
        )
        return dict(newest.extra)

    deploy()
