"""Claims of completeness as the status document tells them."""

from __future__ import annotations

from collections.abc import Iterable

from aggregator.checkpoint.rows import to_moment
from aggregator.completeness.core_claims import Claim
from aggregator.documents.document import CompletenessStatus, CompleteTopic, HeldUp


def completeness_of(
    claims: Iterable[Claim], allowed_lateness: float, error: str = ""
) -> CompletenessStatus:
    """The part of the document that claims come to."""
    return CompletenessStatus(
        allowed_lateness_seconds=allowed_lateness,
        topics=tuple(complete_topic(it) for it in claims),
        error=error,
    )


def complete_topic(claim: Claim) -> CompleteTopic:
    """One claim."""
    told = claim.laggard
    return CompleteTopic(
        topic=claim.topic,
        source=claim.source,
        up_to=None if claim.up_to_ms is None else to_moment(claim.up_to_ms),
        laggard=None
        if told is None
        else HeldUp(
            source=told.source,
            topic=told.topic,
            partition=told.partition,
            why=told.why,
            reason=told.reason,
        ),
        lost=claim.lost.offsets,
        gaps=claim.lost.gaps,
    )
