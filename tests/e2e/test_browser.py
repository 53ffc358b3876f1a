"""A study through Airflow's own pages, in a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.e2e.airflow import PATIENCE, Lab, wait_for

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.e2e

CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture
def page(lab: Lab) -> Iterator[playwright.Page]:
    """A page of a browser that has logged in."""
    if CHROMIUM is None:
        pytest.skip("no chromium is installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        opened = browser.new_page(viewport={"width": 1400, "height": 1000})
        opened.set_default_timeout(60_000)
        opened.goto(f"{lab.stack.url}/")
        opened.fill("input[name=username]", lab.stack.username)
        opened.fill("input[name=password]", lab.stack.password)
        opened.click("button[type=submit]")
        opened.wait_for_url(lambda url: "/auth/login" not in url)
        yield opened
        browser.close()


def run_ids(lab: Lab, dag_id: str) -> set[str]:
    runs = lab.airflow.request("GET", f"/dags/{dag_id}/dagRuns")["dag_runs"]
    return {run["dag_run_id"] for run in runs}


def test_the_demo_study_runs_by_the_trigger_button(lab: Lab, page: playwright.Page) -> None:
    lab.airflow.wait_for_dag("digits", seconds=PATIENCE)
    earlier = run_ids(lab, "digits")
    page.goto(f"{lab.stack.url}/dags/digits")
    page.get_by_role("button", name="Trigger").first.click()
    form = page.get_by_role("dialog")
    form.get_by_text("Search", exact=True).click()  # a section of the study's fields
    trials = form.locator("input[name='element_trials']")
    trials.fill("4")
    trials.press("Tab")
    form.get_by_role("button", name="Trigger").click()

    (run_id,) = wait_for(lambda: run_ids(lab, "digits") - earlier, what="the DAG run")
    assert lab.wait("digits", run_id) == "success"
    study = lab.study("digits", run_id)
    assert study.trials == 4
    assert study.best is not None
    assert study.best.value > 0.5

    # The grid names the trials by their parameters.
    page.goto(f"{lab.stack.url}/dags/digits/runs/{run_id}/tasks/round_00.trial/mapped")
    page.get_by_text("lr=").first.wait_for()


def test_the_gateway_describes_itself_to_those_who_are_logged_in(
    lab: Lab, page: playwright.Page
) -> None:
    page.goto(f"{lab.stack.url}/hpo/api/v1/docs")
    line = page.get_by_text("Tells a trial's task what to do next")
    line.wait_for()
    assert line.is_visible()
