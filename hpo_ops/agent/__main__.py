"""The agent's entry points in a pod: ``python -m hpo_ops.agent restore`` and ``run``."""

import sys

from hpo_ops.agent.pod import Segment, restore, run

COMMANDS = {"restore": restore, "run": run}

if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
    sys.exit(f"usage: python -m hpo_ops.agent {' | '.join(COMMANDS)}")
COMMANDS[sys.argv[1]](Segment.from_environment())
