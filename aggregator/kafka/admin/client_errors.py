"""Kafka client errors -> our values: the one place that knows librdkafka's codes.

librdkafka says only "timed out" of a call whose connection fails; the cause comes through its
error callback. `explain` takes both and names the cause.
"""

import re
from collections.abc import Sequence

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka.admin import ListConsumerGroupsResult, ListOffsetsResultInfo

from aggregator.config.mask import hide_passwords
from aggregator.kafka.credentials import CredentialsError
from aggregator.model.errors import ClusterError
from aggregator.model.values import ClusterFailure, FailureKind

AUTHENTICATION = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError._SSL,
    }
)
OLD_LEADER = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)
"""The client asked a leader of which it knows something that is no longer so."""
AUTHORIZATION = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)
CONNECTION = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE})
TIMEOUT = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT}
)
MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})

HINTS = {
    FailureKind.UNREACHABLE: "check {setting} and that the brokers run",
    FailureKind.REFUSED: "check the login, certificates and ACLs ({settings})",
    FailureKind.TIMEOUT: "the brokers do not answer: check them, the network, and whether a "
    "plaintext client meets a TLS port",
    FailureKind.OTHER: "",
}

LOGIN_HINTS = (
    (r"certificate has expired(?!.*alert)", "the broker's own certificate has to be renewed"),
    (
        r"hostname mismatch|IP address mismatch|subject name",
        "the broker's certificate has no such name: use the name that it has in {servers}, or set "
        'ssl.endpoint.identification.algorithm: "" in {settings}',
    ),
    (
        r"certificate verify failed",
        "the broker's certificate is of no CA in "
        "ssl.truststore.location or ssl.truststore.certificates of {settings}",
    ),
    (
        r"alert.*(certificate|unknown ca|handshake)|certificate.*alert",
        "the broker refuses our certificate: check ssl.keystore.location or "
        "ssl.keystore.certificate.chain of {settings}, and whether it has expired (aggregator "
        "check)",
    ),
    (r"unsupported|supported mechanisms|not enabled", "check sasl.mechanism of {settings}"),
    (
        r"token|OIDC|OAUTHBEARER",
        "check sasl.oauthbearer.token.endpoint.url, and clientId and "
        "clientSecret in sasl.jaas.config, of {settings}",
    ),
    (
        r"authentication|SASL",
        "check user and password in sasl.jaas.config of {settings}; when they "
        "were changed: aggregator reload",
    ),
)
"""What to do about a login that is refused, by the words of librdkafka, OpenSSL or the broker."""


class ClusterCallError(ClusterError):
    """A call to one cluster failed; `failure` says the same as a value."""

    def __init__(self, failure: ClusterFailure) -> None:
        self.failure = failure
        super().__init__(str(failure))


def code_of(error: object) -> int | None:
    """The Kafka error code behind an exception, None for whatever is no Kafka error."""
    if isinstance(error, KafkaException) and error.args:
        error = error.args[0]
    return int(error.code()) if isinstance(error, KafkaError) else None


def is_local(error: Exception) -> bool:
    """Whether an error comes from the client (negative code), not from a broker that answered."""
    code = code_of(error)
    return code is None or code < 0


def error_within(result: object) -> KafkaException | None:
    """Why this result of a call is none; None when it is one.

    A list of groups may have errors alone. And when a leader does not answer in time, librdkafka
    (2.16.0) reports no error but the offset with which it had begun, -1001, as if that were the
    answer. That no record has a timestamp is another one, -1.
    """
    if isinstance(result, ListConsumerGroupsResult) and result.errors and not result.valid:
        return KafkaException(result.errors[0])
    if isinstance(result, ListOffsetsResultInfo) and result.offset == OFFSET_INVALID:
        return KafkaException(KafkaError(KafkaError._TIMED_OUT, "the leader does not answer"))
    return None


def text_of(error: BaseException | KafkaError) -> str:
    """What a Kafka error says, without the decoration of its repr."""
    if isinstance(error, KafkaException) and error.args:
        error = error.args[0]
    return str(error.str()) if isinstance(error, KafkaError) else str(error)


def explain(
    alias: str,
    path: str,
    error: BaseException | KafkaError | None,
    seen: Sequence[KafkaError],
    seconds: float,
    line: str = "",
) -> ClusterFailure:
    """The failure of a call as a value.

    `error` is what the call ended with (None = no answer in `seconds`), `seen` what the error
    callback reported since the cluster last answered, `line` the client's last line on a failed
    connection, `path` the cluster's place in the config.
    """
    errors: list[BaseException | KafkaError] = [*reversed(seen), *([error] if error else [])]
    for kind, known in (
        (FailureKind.REFUSED, AUTHENTICATION | AUTHORIZATION),
        (FailureKind.UNREACHABLE, CONNECTION - {KafkaError._ALL_BROKERS_DOWN}),
    ):
        for each in errors:
            text = text_of(each)
            if code_of(each) in known and not is_timeout_text(text):
                tls = "SSL handshake failed" in text or re.search(r"SSL.*alert", text)
                return _failure(alias, path, FailureKind.REFUSED if tls else kind, _clean(text))
    if line and not is_timeout_text(line):
        return _failure(alias, path, FailureKind.UNREACHABLE, _clean(line))
    code = code_of(error) if error is not None else KafkaError._TIMED_OUT
    if code in TIMEOUT or code in CONNECTION or error is None:
        reason = f"no answer within {seconds:.3g} s"
        return _failure(alias, path, FailureKind.TIMEOUT, reason)
    return _failure(alias, path, FailureKind.OTHER, _clean(text_of(error)))


def is_timeout_text(text: str) -> bool:
    """An open connection without an answer shows as a transport error 'timed out'."""
    return "timed out" in text.lower()


def _failure(alias: str, path: str, kind: FailureKind, reason: str) -> ClusterFailure:
    if "closed by peer" in reason and kind is FailureKind.UNREACHABLE:
        hint = f"the broker ends the connection: check security.protocol in {path}.kafka"
        return ClusterFailure(alias, kind, reason, hint)
    names = {"servers": f"{path}.bootstrap_servers", "settings": f"{path}.kafka"}
    hint = HINTS[kind].format(setting=names["servers"], settings=names["settings"])
    if "No provider for SASL mechanism GSSAPI" in reason:
        hint = "confluent-kafka has to be built with Kerberos: docs/secure-clusters.md"
    if kind is FailureKind.REFUSED:
        known = (it for words, it in LOGIN_HINTS if re.search(words, reason, re.IGNORECASE))
        hint = next(known, hint).format(**names)
    return ClusterFailure(alias, kind, reason, hint)


def not_trusted(failure: ClusterFailure) -> bool:
    """Whether a broker's certificate is not trusted; why, librdkafka does not say."""
    return "certificate verify failed" in failure.reason


def with_reason(failure: ClusterFailure, path: str, why: str) -> ClusterFailure:
    """The failure of a certificate that is not trusted, with the reason for it."""
    reason = f"SSL handshake failed: certificate verify failed: {why}"
    return _failure(failure.alias, path, failure.kind, reason)


def without_credentials(alias: str, path: str, error: CredentialsError) -> ClusterFailure:
    """The failure of a cluster for which we have not what it wants to see."""
    reason = f"{path}.kafka.{error.setting}: {error.reason}"
    return ClusterFailure(alias, FailureKind.REFUSED, reason, error.hint)


def _clean(text: str) -> str:
    """Librdkafka's text without its inner words: `connection refused 127.0.0.1:1`.

    It may quote the address that gives out tokens, with a password in it, or the value of a
    setting, and readers of the status may see neither.
    """
    text = re.sub(r'Invalid value ".*" for', "Invalid value for", hide_passwords(text), flags=re.S)
    # Up to the end: ", 1 identical error(s) suppressed)" may be in there.
    text = re.sub(r"\s*\(after \d+ms in state .*\)\s*$", "", text)
    if match := re.search(r"Connect to ipv[46]#(\S+) failed: (.*)", text):
        return f"{match.group(2).strip().lower()} {match.group(1)}"
    return re.sub(r"^\w+://", "", text).strip()
