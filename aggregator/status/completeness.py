"""Up to when the hub is complete, as status, commands and notebooks show it."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from aggregator.model.alike import made_of
from aggregator.plan.completeness.claims import Claim
from aggregator.store.checkpoint.rows import to_moment


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class HeldUp(_Part):
    """Who holds a claim up, and why: a word, and the reason in words."""

    source: str
    topic: str = Field(default="", description="the source's; empty when it is no one topic")
    partition: int | None = None
    why: str
    reason: str = ""

    @property
    def words(self) -> str:
        """Who, and why, in one line."""
        part = "" if self.partition is None else f"-{self.partition}"
        who = f"{self.source}/{self.topic}{part}" if self.topic else self.source
        why = self.why.replace("_", " ")
        return f"{who} is {why}: {self.reason}" if self.reason else f"{who} is {why}"


class CompleteTopic(_Part):
    """All that a source acknowledged with a timestamp up to `up_to` is in the hub topic.

    But for what was lost at the source, and for late records.
    """

    topic: str
    source: str | None = Field(default=None, description="null: all that may flow into it")
    up_to: datetime | None = None
    laggard: HeldUp | None = Field(default=None, description="null while it is not held up")
    lost: int = Field(default=0, description="offsets lost in decided gaps, as far as known")
    gaps: int = Field(default=0, description="decided gaps in which any are, or may be, lost")


class CompletenessStatus(_Part):
    """Up to when the hub is complete: each hub topic, and each source in it."""

    allowed_lateness_seconds: float
    topics: tuple[CompleteTopic, ...] = ()
    late: dict[str, int] = Field(
        default_factory=dict,
        description="records of each source that came below a claim, at least, since the start",
    )
    error: str = Field(default="", description="why it is not kept in its table")


def completeness_of(
    claims: Iterable[Claim],
    allowed_lateness: float,
    late: Mapping[str, int],
    error: str = "",
) -> CompletenessStatus:
    """The part of the document about claims: of each hub topic, and of what feeds it."""
    return CompletenessStatus(
        allowed_lateness_seconds=allowed_lateness,
        topics=tuple(complete_topic(it) for it in claims if it.topic),
        late=dict(late),
        error=error,
    )


def complete_topic(claim: Claim) -> CompleteTopic:
    """One claim."""
    laggard = claim.laggard
    return CompleteTopic(
        topic=claim.topic,
        source=claim.source,
        up_to=None if claim.up_to_ms is None else to_moment(claim.up_to_ms),
        laggard=None if laggard is None else made_of(HeldUp, laggard),
        lost=claim.lost.offsets,
        gaps=claim.lost.gaps,
    )
