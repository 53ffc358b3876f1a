"""The gateway object: all services on one ledger, created once and used by the HTTP routes."""

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
    """The gateway's services on one ledger. All services are thread-safe.

    All commands are idempotent: a repeated request, with the same idempotency key if the request
    has a key, has no further effect.

    Attributes:
        ledger: The database.
        keys: The keys that sign and verify tokens.
        proposals: Asks samplers for parameters of trials and tells them results of trials.
        studies: Starts, controls and ends studies; for tasks and people.
        rounds: Samples and collects rounds (batches of trials sampled together); for tasks.
        next_actions: Tells the tasks of trials what to do; for tasks and the triggerer.
        segments: Records reports, checkpoints, forecasts and ends of segments (uninterrupted
            executions of trials); for agents.
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
        """Creates a gateway with all services on one ledger.

        Args:
            ledger: The database.
            keys: The keys that sign and verify tokens.
            stores: The stores that studies may use. If the list is empty, the gateway does not
                check a study's store; the DAG's task `prepare` does.
            share: DAGs with which every study shares its trials, in addition to the study's
                `share`.
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
