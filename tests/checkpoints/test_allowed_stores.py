import pytest

from hpo_ops.checkpoints.allowed_stores import AllowedStores

HERE = AllowedStores(("s3://hpo/team", "file:///srv/stores"))


@pytest.mark.parametrize(
    "address",
    ["s3://hpo/team", "s3://hpo/team/", "s3://hpo/team/a/b", "file:///srv/stores/a.b/..c"],
)
def test_what_is_listed_and_what_is_below_it_may_be_used(address: str) -> None:
    HERE.check(address)


@pytest.mark.parametrize(
    "address",
    [
        "s3://hpo",
        "s3://hpo/teams",
        "s3://hpo/team2/a",
        "s3://hpo-evil/team",
        "s3://HPO/team",
        "s3://hpo/team/../victim",
        "s3://hpo/team/..",
        "s3://hpo/team//../victim",
        "s3://hpo/team/./a",
        "s3://hpo//team/a",
        "s3://hpo/team/%2e%2e/victim",
        "s3://hpo/team%2Fa",
        "s3://hpo/team\\..\\victim",
        "s3://hpo/team?x=/../victim",
        "s3://hpo/team#/a",
        "s3://user@hpo/team",
        "s3://hpo:443/team",
        "s3://hpo/team\n",
        "s3:///hpo/team",
        "file:///srv/stores/../../etc",
        "file:///srv/stores2",
        "file:///srv/stores/%2e%2e/etc",
        "file:////srv/stores",
        "file://srv/stores",
        "file:///",
        "memory:///",
        "",
    ],
)
def test_nothing_else_may_be_used(address: str) -> None:
    with pytest.raises(ValueError, match="must be a store that the operator allows"):
        HERE.check(address)


def test_the_platform_s_own_store_is_always_allowed() -> None:
    own = {"HPO_CHECKPOINT_STORE": "file:///my%20folder"}
    stores = AllowedStores.from_environment(own)

    stores.check("file:///my%20folder")
    with pytest.raises(ValueError, match="allows"):
        stores.check("file:///my%20folder/../b")


def test_more_stores_are_listed_with_commas() -> None:
    listed = {"HPO_CHECKPOINT_STORE": "s3://hpo", "HPO_ALLOWED_STORES": "s3://a/b, file:///c ,"}

    stores = AllowedStores.from_environment(listed)

    assert stores.addresses == ("s3://hpo", "s3://a/b", "file:///c")


@pytest.mark.parametrize("listed", ["hpo", "s3://", "s3://a/../b", "gs://a"])
def test_a_list_that_means_nothing_is_told(listed: str) -> None:
    with pytest.raises(ValueError, match="HPO_ALLOWED_STORES: store is"):
        AllowedStores.from_environment({"HPO_ALLOWED_STORES": listed})


def test_without_a_list_no_store_is_allowed() -> None:
    with pytest.raises(ValueError, match=r"none \(set by HPO_CHECKPOINT_STORE"):
        AllowedStores.from_environment({}).check("s3://hpo")
