"""The agent's commands in a pod: ``python -m hpo_ops.agent restore`` and ``run``.

``restore`` prepares the workspace before the training starts; ``run`` runs beside the training.
"""

import ctypes
import signal
import sys
import traceback

from hpo_ops.agent._sidecar import Segment, restore, run

PR_SET_DUMPABLE = 4

COMMANDS = {"restore": restore, "run": run}

if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
    sys.exit(f"usage: python -m hpo_ops.agent {' | '.join(COMMANDS)}")
if sys.argv[1] == "restore":
    # The first process of a container ignores signals that it does not handle, so `restore` needs
    # a handler to end. `run` must outlive the training, so it ignores SIGTERM until it is ready.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
# The environment contains secret keys: no other process of this user may read
# /proc/<pid>/environ, nor may this process through a path that a training chose.
ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
try:
    COMMANDS[sys.argv[1]](Segment.from_environment())
except Exception as error:  # noqa: BLE001, the last line becomes the pod's termination message
    traceback.print_exc()
    sys.exit(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
