"""Near-valid bodies by callers who may send them: they get as far as the ledger, or a 4xx."""

from __future__ import annotations

import io
import json
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st

from hpo_ops.protocol import Checkpoint, CurveForecast, Outcome, Provenance, Report, SegmentResult
from tests.fuzz.conftest import Fuzz
from tests.fuzz.gateway_target import Target
from tests.fuzz.mutations import ODD_TEXT, near
from tests.fuzz.test_study_files import NAMES, STUDIES
from tests.gateway.web import bearer, begin, segment_of
from tests.jobs import SAMPLE, archive
from tests.studies import study_data

REPORT = Report(step=1, metrics={"accuracy": 0.5}, seconds=1.0)
RESULT = SegmentResult(outcome=Outcome.COMPLETED, step=1, reason="done", exit_code=0)
OF_SEGMENTS: dict[str, Any] = {
    "reports": [REPORT.to_dict()],
    "checkpoints": Checkpoint(step=1, uri="s3://hpo/small/x/1", files=1, bytes=1).to_dict(),
    "forecasts": CurveForecast(step=1, steps=[2, 3], quantiles=[[0.1], [0.2]]).to_dict(),
    "result": {
        "result": RESULT.to_dict(),
        "reports": [REPORT.to_dict()],
        "provenance": Provenance(packages={"torch": "2"}).to_dict(),
    },
}
CHANGES = {"trials": 8, "parallelism": 2, "stop.target": 0.9, "scheduler.max_steps": 9}
TRIALS = [
    {"number": 0, "params": {"lr": 0.01, "width": 8}, "values": [0.5], "curve": [[1, 0.4]]},
    {"number": 1, "params": {"lr": 0.02, "width": 9}, "values": [0.6], "curve": []},
]


@dataclass(frozen=True)
class Body:
    """A body for a route; `{study}` and `{segment}` in it are filled in when it is sent."""

    path: str
    data: Any
    caller: str
    has_archive: bool = False


def _study(config: Any, name: str) -> Any:
    return {"config": config, "dag_id": name, "run_id": name, "repeat": 0}


def _import(config: Any, trials: Any) -> Any:
    return {"config": config, "source": "elsewhere", "trials": trials}


texts = st.one_of(st.just("small"), st.sampled_from(ODD_TEXT), st.text(max_size=20))
studies = near(STUDIES, names=NAMES)
bodies = st.one_of(
    st.builds(Body, st.just("/studies"), st.builds(_study, studies, texts), st.just("task")),
    st.builds(
        Body,
        st.just("/imports"),
        st.builds(
            _import,
            st.one_of(st.just(study_data()), studies),
            near([TRIALS], names=("lr", "width")),
        ),
        st.just("owner"),
    ),
    st.builds(
        Body,
        st.just("/jobs"),
        near([dict(SAMPLE)], names=tuple(SAMPLE)),
        st.just("owner"),
        st.booleans(),
    ),
    st.builds(
        Body,
        st.just("/studies/{study}/config"),
        near([CHANGES], names=NAMES),
        st.just("owner"),
    ),
    *(
        st.builds(
            Body,
            st.just(f"/segments/{{segment}}/{kind}"),
            near([data], names=("step", "accuracy", "reason")),
            st.just("agent"),
        )
        for kind, data in OF_SEGMENTS.items()
    ),
)


@pytest.mark.fuzz(100)
def test_a_nearly_valid_body_gets_an_answer(target: Target, fuzz: Fuzz[Body]) -> None:
    def check(body: Body) -> Counter[str]:
        headers, segment = dict(target.callers[body.caller]), target.known["segment"]
        if body.path.endswith("/result"):  # the last thing that a segment says
            _, turn = begin(target.services)
            headers, segment = bearer(turn.token or ""), segment_of(turn)
        path = body.path.format(segment=segment, study=target.known["study_id"])
        data = body.data
        if body.path == "/studies" and data["run_id"] == "small":
            data = {**data, "run_id": uuid.uuid4().hex}
        text = json.dumps(data).encode()
        if body.has_archive:
            files = {"job": ("job", io.BytesIO(text)), "code": ("code", io.BytesIO(archive()))}
            answer = target.web.post(f"/api/v1{path}", headers=headers, files=files)
        else:
            headers["Content-Type"] = "application/json"
            answer = target.web.post(f"/api/v1{path}", headers=headers, content=text)
        return Counter({target.judge(answer, body.caller): 1})

    fuzz(bodies, check)
