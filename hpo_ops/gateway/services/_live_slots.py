"""Slots of a study in the ledger: counts the free slots and gives them to trials.

A slot is room for one running trial; a study has `parallelism` slots.
"""

from __future__ import annotations

from hpo_ops.core import TrialState
from hpo_ops.gateway.services import _pbt_copies
from hpo_ops.ledger import StudyState, StudyTransaction


def fill_slots(session: StudyTransaction, free: int) -> tuple[list[int], str]:
    """Gives up to `free` slots to trials that the scheduler picks; these trials become RUNNING.

    Paused and waiting trials that the scheduler will never run again are pruned.

    Returns:
        The numbers of the picked trials, and the scheduler's reason. If the study is paused or
        stopping, no trial is picked, and the reason is why the study is paused or stops.
    """
    config = session.record.config
    if session.record.state is not StudyState.RUNNING:
        return [], why_nothing_runs(session)
    group = config.create_scheduler().next(session.view, free, session.now)
    for number in group.dropped:
        session.trials.move(number, TrialState.PRUNED, group.reason)
    numbers = []
    for member in group.members:
        number = _pbt_copies.add_trial(session, member) if member.trial is None else member.trial
        session.trials.give_slot(
            number, member.reason, group=member.group, until_step=member.until_step
        )
        numbers.append(number)
    return numbers, group.reason


def why_nothing_runs(session: StudyTransaction) -> str:
    """Returns the reason why no trial of a paused or stopping study may start."""
    reason = session.record.reason
    if session.record.state is StudyState.PAUSED:
        return f"the study is paused: {reason}"
    return f"the study stops: {reason}"


def count_free_slots(session: StudyTransaction) -> int:
    """Returns how many slots of the study have no running trial."""
    running = len(session.view.in_state(TrialState.RUNNING))
    return max(session.record.config.parallelism - running, 0)
