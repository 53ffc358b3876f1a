import json

import pytest

from hpo_ops.checkpoints.session_policy import StoreAccess, session_policy


def test_a_policy_names_folders_below_the_store_s_prefix() -> None:
    access = StoreAccess(store="s3://b/deep/", writable=["s/r/trials/0"], objects=["code/a"])

    policy = json.loads(session_policy(access, partition="aws-cn"))

    resources = {item for statement in policy["Statement"] for item in statement["Resource"]}
    assert resources == {
        "arn:aws-cn:s3:::b",
        "arn:aws-cn:s3:::b/deep/s/r/trials/0/*",
        "arn:aws-cn:s3:::b/deep/code/a",
    }
    listing = policy["Statement"][-1]
    assert listing["Condition"] == {"StringLike": {"s3:prefix": ["deep/s/r/trials/0/*"]}}


@pytest.mark.parametrize(
    "path", ["*", "s/*", "s/r?", "s/${aws:username}", "../other", "", "/s", "s//r", "s/./r"]
)
def test_a_path_that_would_allow_more_than_it_says_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="path"):
        session_policy(StoreAccess(store="s3://b", writable=[path]))


def test_only_s3_has_sessions() -> None:
    with pytest.raises(ValueError, match="s3:// stores only"):
        session_policy(StoreAccess(store="file:///tmp", writable=["s"]))


def test_a_policy_with_long_names_is_within_what_aws_takes() -> None:
    key = f"{'n' * 100}/{'r' * 100}"
    access = StoreAccess(
        store="s3://a-bucket-with-a-name/prefix",
        writable=[f"{key}/trials/1000", f"{key}/logs/1000"],
        readable=[key, f"{key}/trials/7"],
        objects=[f"code/{'a' * 32}.tar.gz"],
    )

    assert len(session_policy(access)) <= 2048
