from __future__ import annotations

import pytest

from hpo_ops.protocol import ProtocolError, check_version


@pytest.mark.parametrize(("version", "own"), [(1, 1), (2, 2), (1, 2), (2, 3)])
def test_the_own_version_and_the_one_before_it_are_understood(version: int, own: int) -> None:
    check_version(version, own=own)


@pytest.mark.parametrize(
    ("version", "own", "understood"),
    [(2, 1, "1"), (0, 1, "1"), (1, 3, "2 or 3"), (4, 3, "2 or 3")],
)
def test_other_versions_are_refused(version: int, own: int, understood: str) -> None:
    with pytest.raises(ProtocolError, match=f"protocol is {version}, but must be {understood}$"):
        check_version(version, own=own)
