"""Attacks on the object store by somebody who has got at a pod's credentials."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import boto3
import httpx
import obstore
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as Keys
from botocore.exceptions import ClientError
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import insert
from sqlalchemy.engine import URL

from hpo_ops.airflow.connections import pod_store_environment
from hpo_ops.checkpoints import Checkpoints, Credentials, Logs, open_store
from hpo_ops.checkpoints._pod_logs import LogRef
from hpo_ops.client import GatewayRefusedError, NextAction, StudyRequest
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.http.gateway_app import create_app
from hpo_ops.ledger import Ledger
from hpo_ops.ledger._schema import checkpoints, segments
from hpo_ops.ledger.leases import set_capacity
from hpo_ops.protocol import Outcome, SegmentResult
from tests.databases import fresh_database
from tests.gateway.web import SECRET, agent, segment_of
from tests.s3 import BUCKET
from tests.studies import study_data

if TYPE_CHECKING:
    from hpo_ops.client.store_session import StoreSession

pytestmark = pytest.mark.e2e

ROLE = "arn:aws:iam::000000000000:role/hpo-pod"
CODE, OTHER_CODE = f"code/{'a' * 32}.tar.gz", f"code/{'b' * 32}.tar.gz"
EVERYTHING = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}


@dataclass(frozen=True)
class Scene:
    """A study whose pod has fallen into wrong hands, and a victim's, in one bucket."""

    services: Gateway
    platform: Credentials
    mine: NextAction
    victim: NextAction
    web: TestClient
    keys: Credentials

    def client(self, service: str, keys: Credentials | None = None) -> Any:
        keys = keys or self.keys
        return boto3.client(
            service,
            endpoint_url=self.platform.endpoint,
            aws_access_key_id=keys.access_key_id,
            aws_secret_access_key=keys.secret_access_key,
            aws_session_token=keys.session_token,
            region_name="us-east-1",
        )


def key_of(turn: NextAction) -> str:
    assert turn.assignment is not None
    return turn.assignment.study


def start(services: Gateway, name: str) -> NextAction:
    config = study_data(
        name=name,
        runner="kubernetes",
        image="any",
        checkpoints={"store": f"s3://{BUCKET}"},
    )
    request = StudyRequest(config=config, dag_id=name, run_id=uuid.uuid4().hex, archive=CODE)
    study_id = services.studies.start(request).id
    services.rounds.sample(study_id, 0)
    return services.next_actions.next_action(study_id, 0, "a")


@pytest.fixture(scope="module")
def scene(s3: Credentials, postgres: URL, template: str) -> Iterator[Scene]:
    with fresh_database(postgres, template) as address, pytest.MonkeyPatch.context() as patch:
        extra = {"endpoint_url": s3.endpoint, "region_name": "us-east-1", "pod_role_arn": ROLE}
        connection = {
            "conn_type": "aws",
            "login": s3.access_key_id,
            "password": s3.secret_access_key,
            "extra": extra,
        }
        patch.setenv("AIRFLOW_CONN_HPO_S3", json.dumps(connection))
        ledger = Ledger.open(address)
        with ledger.engine.begin() as opened:
            for pool in ("local", "cpu"):
                set_capacity(opened, pool, 100)
        services = Gateway.on_ledger(ledger, SECRET)
        mine, victim = start(services, "mine"), start(services, "victim")
        web = mounted(services)
        store = Scene(services, s3, mine, victim, web, s3).client("s3")
        for key in (
            f"{key_of(mine)}/trials/0/1/model",
            f"{key_of(victim)}/trials/0/1/model",
            CODE,
            OTHER_CODE,
        ):
            store.put_object(Bucket=BUCKET, Key=key, Body=b"honest")
        yield Scene(services, s3, mine, victim, web, pod_keys(web, mine))
        ledger.engine.dispose()


def mounted(services: Gateway) -> TestClient:
    """The gateway, which makes credentials where this version does."""
    try:
        from hpo_ops.airflow._store_sessions import open_store_session
    except ModuleNotFoundError:
        app = create_app(services)
    else:
        app = create_app(services, open_store_session=open_store_session)
    outer = FastAPI()
    outer.mount("/hpo", app)
    return TestClient(outer, raise_server_exceptions=False)


def pod_keys(web: TestClient, turn: NextAction) -> Credentials:
    """What somebody gets who has all that a pod is given."""
    found = Credentials.from_environment(pod_store_environment())
    if found.access_key_id is not None:
        return found
    session = agent(web, turn).store_session()
    return Credentials(
        access_key_id=session.access_key_id,
        secret_access_key=session.secret_access_key,
        session_token=session.session_token,
        endpoint=found.endpoint,
    )


def refused(act: Callable[[], object]) -> bool:
    try:
        act()
    except ClientError as error:
        return bool(error.response["ResponseMetadata"]["HTTPStatusCode"] == 403)
    return False


def test_a_pod_does_all_that_its_trial_needs(scene: Scene, tmp_path: Any) -> None:
    store, key = open_store(f"s3://{BUCKET}", scene.keys), key_of(scene.mine)
    mine = Checkpoints(store, key)
    (tmp_path / "4").mkdir()
    (tmp_path / "4" / "weights").write_bytes(b"w" * (6 << 20))
    mine.upload(0, 4, tmp_path / "4")
    mine.upload(0, 4, tmp_path / "4")

    assert mine.restore(0, tmp_path / "back") == 4
    Logs(store, key).write(LogRef(0, segment_of(scene.mine), "training"), 0, b"line")
    archive = scene.client("s3").get_object(Bucket=BUCKET, Key=CODE)
    assert archive["Body"].read() == b"honest"


def test_another_study_cannot_be_read_changed_or_listed(scene: Scene) -> None:
    s3, victim = scene.client("s3"), key_of(scene.victim)
    path, stolen = f"{victim}/trials/0/1/model", f"{key_of(scene.mine)}/trials/0/9/model"
    where = {"Bucket": BUCKET, "Key": path}

    attacks = {
        "read": lambda: s3.get_object(**where),
        "look": lambda: s3.head_object(**where),
        "write": lambda: s3.put_object(**where, Body=b"evil"),
        "delete": lambda: s3.delete_object(**where),
        "list": lambda: s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{victim}/"),
        "list by the old way": lambda: s3.list_objects(Bucket=BUCKET, Prefix=f"{victim}/"),
        "list all": lambda: s3.list_objects_v2(Bucket=BUCKET),
        "copy to mine": lambda: s3.copy_object(
            Bucket=BUCKET, Key=stolen, CopySource=f"{BUCKET}/{path}"
        ),
        "open to all": lambda: s3.put_bucket_policy(
            Bucket=BUCKET,
            Policy=json.dumps(
                {
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Effect": "Allow",
                            "Principal": "*",
                            "Action": "s3:*",
                            "Resource": [f"arn:aws:s3:::{BUCKET}/*"],
                        }
                    ],
                }
            ),
        ),
        "delete the bucket": lambda: s3.delete_bucket(Bucket=BUCKET),
        "make a bucket": lambda: s3.create_bucket(Bucket="evil"),
    }
    assert [what for what, act in attacks.items() if not refused(act)] == []
    s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": path}]})
    kept = scene.client("s3", scene.platform).get_object(**where)
    assert kept["Body"].read() == b"honest"


def test_paths_that_climb_out_of_the_own_folder_lead_nowhere(scene: Scene) -> None:
    s3, victim = scene.client("s3"), key_of(scene.victim)
    path = f"{key_of(scene.mine)}/trials/0/../../../../{victim}/trials/0/1/model"

    for act in (
        lambda: s3.get_object(Bucket=BUCKET, Key=path),
        lambda: s3.put_object(Bucket=BUCKET, Key=path, Body=b"evil"),
    ):
        with pytest.raises(ClientError):
            act()
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix=path.removesuffix("model"))
    assert found["KeyCount"] == 0


def test_code_is_read_and_never_written(scene: Scene) -> None:
    s3 = scene.client("s3")

    assert refused(lambda: s3.put_object(Bucket=BUCKET, Key=CODE, Body=b"evil"))
    assert refused(lambda: s3.delete_object(Bucket=BUCKET, Key=CODE))
    assert refused(lambda: s3.get_object(Bucket=BUCKET, Key=OTHER_CODE))


def test_other_trials_of_the_study_cannot_be_overwritten(scene: Scene) -> None:
    s3, key = scene.client("s3"), key_of(scene.mine)

    for path in (f"{key}/trials/1/1/model", f"{key}/best/model", f"{key}/result.json"):
        assert refused(lambda path=path: s3.put_object(Bucket=BUCKET, Key=path, Body=b"evil"))


def test_a_session_cannot_give_itself_more(scene: Scene) -> None:
    sts, iam = scene.client("sts"), scene.client("iam")

    assert refused(lambda: sts.assume_role(RoleArn=ROLE, RoleSessionName="evil"))
    assert refused(
        lambda: sts.assume_role(
            RoleArn=ROLE, RoleSessionName="evil", Policy=json.dumps(EVERYTHING)
        )
    )
    assert refused(lambda: sts.get_federation_token(Name="evil", Policy=json.dumps(EVERYTHING)))
    assert _assume_oneself(scene) == 403
    with pytest.raises(ClientError):
        iam.create_user(UserName="evil")
    with pytest.raises(ClientError):
        iam.create_access_key(UserName="evil")


def _assume_oneself(scene: Scene) -> int:
    """`AssumeRole` without a role, which SeaweedFS understands as one's own rights."""
    request = AWSRequest(
        "POST",
        f"{scene.platform.endpoint}/",
        data="Action=AssumeRole&Version=2011-06-15&RoleSessionName=evil",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    keys = scene.keys
    signed = Keys(keys.access_key_id, keys.secret_access_key, keys.session_token)
    SigV4Auth(signed, "sts", "us-east-1").add_auth(request)
    answer = httpx.post(request.url, content=request.data, headers=dict(request.headers))
    return answer.status_code


def test_credentials_expire_within_the_hour(scene: Scene) -> None:
    session = agent(scene.web, scene.mine).store_session()

    left = session.expiry - datetime.now(UTC)
    assert timedelta(minutes=50) < left <= timedelta(hours=1)


def test_an_agent_renews_its_credentials_before_they_expire(scene: Scene) -> None:
    from hpo_ops.agent.store_credentials import SessionCredentials

    class Short:
        """The gateway, with sessions that seem to end in a minute."""

        made = 0

        def store_session(self) -> StoreSession:
            self.made += 1
            soon = datetime.now(UTC) + timedelta(minutes=1)
            session = agent(scene.web, scene.mine).store_session()
            return replace(session, expires_at=soon.isoformat())

    gateway = Short()
    reach = replace(scene.platform, access_key_id=None, secret_access_key=None)
    store = open_store(f"s3://{BUCKET}", reach, provider=SessionCredentials(gateway))
    give_up_at = time.monotonic() + 10
    while gateway.made < 2 and time.monotonic() < give_up_at:
        obstore.put(store, f"{key_of(scene.mine)}/trials/0/7/model", b"mine")

    assert gateway.made >= 2


def test_credentials_are_for_the_token_of_the_segment_while_it_is_open(scene: Scene) -> None:
    turn = start(scene.services, "ending")
    path = f"/hpo/api/v1/segments/{segment_of(turn)}/credentials"

    other = agent(scene.web, scene.victim)
    other._path = f"/segments/{segment_of(turn)}"
    with pytest.raises(GatewayRefusedError):
        other.store_session()
    assert scene.web.post(path).status_code == 401
    agent(scene.web, turn).store_session()
    scene.services.segments.finish(
        segment_of(turn), SegmentResult(outcome=Outcome.STOPPED, reason="it is over")
    )
    with pytest.raises(GatewayRefusedError, match="has ended"):
        agent(scene.web, turn).store_session()


def test_a_trial_that_was_served_from_another_study_may_read_its_checkpoint(
    scene: Scene,
) -> None:
    turn = start(scene.services, "served")
    assert turn.assignment is not None
    place = f"{key_of(scene.victim)}/trials/0"
    _serve(scene.services, segment_of(turn), f"s3://{BUCKET}/{place}/1")

    s3 = scene.client("s3", pod_keys(scene.web, turn))

    where = {"Bucket": BUCKET, "Key": f"{place}/1/model"}
    assert s3.get_object(**where)["Body"].read() == b"honest"
    assert s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{place}/", Delimiter="/")["KeyCount"] == 1
    assert refused(lambda: s3.put_object(**where, Body=b"evil"))


def _serve(services: Gateway, segment_id: str, uri: str) -> None:
    """Makes the ledger say that the segment goes on from a checkpoint of another study's."""
    with services.ledger.engine.begin() as connection:
        row = connection.execute(segments.select().where(segments.c.id == segment_id)).one()
        connection.execute(
            segments.update().where(segments.c.id == segment_id).values(from_step=1)
        )
        served = {**row._mapping, "id": uuid.uuid4().hex, "key": "served", "runner": "cache"}
        connection.execute(insert(segments).values({**served, "outcome": "paused"}))
        connection.execute(
            insert(checkpoints).values(
                study_id=row.study_id,
                trial=row.trial,
                step=1,
                segment_id=served["id"],
                uri=uri,
                files=1,
                bytes=6,
            )
        )
