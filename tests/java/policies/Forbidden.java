package policies;

import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/** A policy of a hub: topics with this word in their names are not made. */
public final class Forbidden implements CreateTopicPolicy {
    @Override
    public void configure(Map<String, ?> configs) {
        // There is nothing to set.
    }

    @Override
    public void validate(RequestMetadata wanted) {
        if (wanted.topic().contains("forbidden")) {
            throw new PolicyViolationException("no topic is called forbidden here");
        }
    }

    @Override
    public void close() {
        // There is nothing to close.
    }
}
