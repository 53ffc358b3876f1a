from __future__ import annotations

from pathlib import Path

from hpo_ops.agent._checkpoint_upload import Uploader
from hpo_ops.checkpoints import BadCheckpointError
from hpo_ops.protocol import Checkpoint, Folder

WAIT_SECONDS = 30.0


def test_an_uploader_is_not_idle_until_it_was_heard(tmp_path: Path) -> None:
    whole = Checkpoint(step=1, uri="memory:///1", files=1, bytes=1)
    bad = BadCheckpointError("checkpoint 2: the folder is empty")

    def upload(step: int, _folder: Folder) -> Checkpoint:
        if step == whole.step:
            return whole
        raise bad

    uploader = Uploader(upload, lambda _: Folder.open(tmp_path))
    for step, outcome in ((1, whole), (2, bad)):
        uploader.offer(step)
        assert uploader.wait_idle(WAIT_SECONDS)
        assert not uploader.is_idle
        assert uploader.settled() == [outcome]
        assert uploader.is_idle
    uploader.close()
