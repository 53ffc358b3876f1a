"""The domain model of a study, and the protocols that policies implement: no I/O, no clock."""

from hpo_ops.core._policy_ports import Allocator, Scheduler, StaticAllocator
from hpo_ops.core._study_view import Direction, Goal, Index, Study
from hpo_ops.core.decisions import (
    Allocation,
    Capacity,
    Decision,
    Member,
    Placement,
    TrialGroup,
)
from hpo_ops.core.score_ranking import Ranking
from hpo_ops.core.seeds import derive_seed
from hpo_ops.core.trial_state import Forecast, Observation, Trial, TrialState
from hpo_ops.protocol import Action

__all__ = [
    "Action",
    "Allocation",
    "Allocator",
    "Capacity",
    "Decision",
    "Direction",
    "Forecast",
    "Goal",
    "Index",
    "Member",
    "Observation",
    "Placement",
    "Ranking",
    "Scheduler",
    "StaticAllocator",
    "Study",
    "Trial",
    "TrialGroup",
    "TrialState",
    "derive_seed",
]
