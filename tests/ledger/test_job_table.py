"""Jobs in the ledger."""

from __future__ import annotations

from dataclasses import replace

from hpo_ops.ledger import Ledger
from hpo_ops.ledger.job_table import JobRow, add_job, find_submission, list_jobs

FIRST = JobRow(
    key=None, name="net", dag_id="hpo", run_id="r1", job={"seed": 1}, code="s3://c", user="ann"
)


def test_the_first_submission_of_a_name_or_key_stays(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        add_job(connection, FIRST)
        add_job(connection, replace(FIRST, run_id="r2"))
        add_job(connection, replace(FIRST, run_id="r3", key="k"))
        add_job(connection, replace(FIRST, run_id="r4", key="k", name="other"))
        assert find_submission(connection, user="ann", key=None, name="net") == FIRST
        keyed = find_submission(connection, user="ann", key="k", name="any")
        assert keyed is not None
        assert keyed.run_id == "r3"
        assert find_submission(connection, user="bob", key=None, name="net") is None


def test_own_jobs_are_listed_first_then_the_newest(ledger: Ledger) -> None:
    rows = [
        FIRST,
        replace(FIRST, user="bob", run_id="r2"),
        replace(FIRST, user="eve", run_id="r3"),
        replace(FIRST, name="other", run_id="r4"),
    ]
    for row in rows:
        with ledger.begin() as connection:
            add_job(connection, row)
    with ledger.connect() as connection:
        found = list_jobs(connection, "net", run_id=None, user="bob")
        one = list_jobs(connection, "net", run_id="r1", user="bob")
    assert [row.run_id for row in found] == ["r2", "r3", "r1"]
    assert [row.owner for row in one] == ["ann"]
