"""Nouns and rules of a study: no I/O, no clock; and the ports that every plug-in implements."""

from hpo_ops.core.decision import (
    Allocation,
    Capacity,
    Decision,
    Member,
    Placement,
    TrialGroup,
)
from hpo_ops.core.ports import Allocator, Forecasting, Lasting, Scheduler
from hpo_ops.core.ranking import Ranking
from hpo_ops.core.seeds import derive_seed
from hpo_ops.core.study import Direction, Goal, Index, Study
from hpo_ops.core.trial import Forecast, Observation, Trial, TrialState
from hpo_ops.protocol import Action

__all__ = [
    "Action",
    "Allocation",
    "Allocator",
    "Capacity",
    "Decision",
    "Direction",
    "Forecast",
    "Forecasting",
    "Goal",
    "Index",
    "Lasting",
    "Member",
    "Observation",
    "Placement",
    "Ranking",
    "Scheduler",
    "Study",
    "Trial",
    "TrialGroup",
    "TrialState",
    "derive_seed",
]
