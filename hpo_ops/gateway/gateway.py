"""The gateway's services, put together once and handed to the HTTP routes."""

from __future__ import annotations

from dataclasses import dataclass

from hpo_ops.checkpoints.allowed_stores import AllowedStores
from hpo_ops.client.token_signing import KeyRing
from hpo_ops.gateway.services.next_action_service import NextActionService
from hpo_ops.gateway.services.proposals import Proposals
from hpo_ops.gateway.services.round_service import RoundService
from hpo_ops.gateway.services.segment_service import SegmentService
from hpo_ops.gateway.services.study_service import NOT_LISTED, StudyService
from hpo_ops.ledger import Ledger


@dataclass(frozen=True)
class Gateway:
    """The services on one ledger. All of them may be called from any thread.

    Every command is safe to repeat: the same request, with the same idempotency key where it has
    one, has its effect once.

    Attributes:
        ledger: The database.
        keys: The keys that sign tokens.
        proposals: Asks samplers for parameters and tells them results.
        studies: Starts, steers and ends studies; for tasks and people.
        rounds: Samples and collects rounds; for tasks.
        next_actions: Tells the tasks of trials what to do; for tasks and the triggerer.
        segments: Takes reports, checkpoints, forecasts and ends of segments; for agents.
    """

    ledger: Ledger
    keys: KeyRing
    proposals: Proposals
    studies: StudyService
    rounds: RoundService
    next_actions: NextActionService
    segments: SegmentService

    @classmethod
    def on_ledger(
        cls,
        ledger: Ledger,
        keys: KeyRing,
        *,
        stores: AllowedStores = NOT_LISTED,
        share: tuple[str, ...] = (),
    ) -> Gateway:
        """The services on a ledger.

        Args:
            ledger: The database.
            keys: The keys that sign tokens.
            stores: The stores that studies may use; where none is listed, only `prepare` checks.
            share: DAGs with which every study shares its trials, in addition to its own list.
        """
        proposals = Proposals(ledger)
        return cls(
            ledger=ledger,
            keys=keys,
            proposals=proposals,
            studies=StudyService(ledger, proposals, stores=stores, share=share),
            rounds=RoundService(ledger, proposals),
            next_actions=NextActionService(ledger, proposals, keys),
            segments=SegmentService(ledger),
        )
