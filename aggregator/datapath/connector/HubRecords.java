package aggregator.connector;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.internals.BatchCollector;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * What a consumer of the hub polls, with the origin of records whose batch was copied as it is:
 * these have none of their own, and Kafka's consumer does not show the headers of batches. Used by
 * the thread that polls.
 *
 * <p>With another kafka-clients than the pinned one these headers cannot be reached. Then a record
 * without an origin is refused: passed over as one of others, it would be copied a second time.
 */
final class HubRecords {
    private final Consumer<byte[], byte[]> consumer;
    private final PassedOrigins origins;
    private final String misfit;
    /** Null where records come as the consumer has them. */
    private final Fetched fetched;
    /** A batch that cannot be read, behind what was returned. */
    private KafkaException damaged;

    /** For a consumer that has polled nothing yet; null for origins that are not wanted. */
    HubRecords(Consumer<byte[], byte[]> consumer, PassedOrigins origins) {
        this(consumer, origins, KafkaShape.misfit());
    }

    /** `misfit`: why batches cannot be reached, as {@link KafkaShape#misfit} says it. */
    HubRecords(Consumer<byte[], byte[]> consumer, PassedOrigins origins, String misfit) {
        this.consumer = consumer;
        this.origins = origins;
        this.misfit = misfit;
        try {
            fetched = origins == null || !misfit.isEmpty()
                ? null
                : new Fetched.Bytes(BatchCollector.into(consumer), origins);
        } catch (ReflectiveOperationException another) {
            throw new IllegalStateException(another);
        }
    }

    /** What this consumer polls is read so. */
    HubRecords(Consumer<byte[], byte[]> consumer, Fetched fetched) {
        this.consumer = consumer;
        this.fetched = fetched;
        origins = null;
        misfit = "";
    }

    /** As the consumer's `poll`; throws what it throws. */
    ConsumerRecords<byte[], byte[]> poll(Duration timeout) {
        throwDamaged();
        ConsumerRecords<byte[], byte[]> polled = consumer.poll(timeout);
        if (fetched == null) {
            refuse(polled);
            return polled;
        }
        Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> all = new LinkedHashMap<>();
        Set<TopicPartition> wanted = new HashSet<>(consumer.assignment());
        // All of it: the consumer is beyond what it has fetched of other partitions.
        while (isMore(wanted)) {
            TopicPartition of = fetched.partition();
            fetched.next();
            if (wanted.contains(of)) {
                all.computeIfAbsent(of, name -> new ArrayList<>()).add(fetched.record());
            }
        }
        if (all.isEmpty()) {
            throwDamaged();
        }
        return new ConsumerRecords<>(all);
    }

    /** Whether there is another record. Of a damaged partition none is `wanted` any more. */
    private boolean isMore(Set<TopicPartition> wanted) {
        while (true) {
            try {
                return fetched.more();
            } catch (KafkaException broken) {
                TopicPartition of = fetched.partition();
                if (wanted.remove(of)) {
                    // It is read again from there on, and found damaged again.
                    consumer.seek(of, fetched.damagedAt());
                    damaged = broken;
                }
            }
        }
    }

    private void refuse(ConsumerRecords<byte[], byte[]> polled) {
        if (origins == null) {
            return;
        }
        for (ConsumerRecord<byte[], byte[]> record : polled) {
            if (origins.mayHave(record.headers())) {
                throw new IllegalStateException(
                    record.topic() + "-" + record.partition() + "@" + record.offset()
                    + " has no origin in its headers. Its batch may have been copied as it is"
                    + " (topics.copy_as: batches), which cannot be read: " + misfit
                    + ". Remove the other kafka-clients from the class path, as of spark.jars");
            }
        }
    }

    private void throwDamaged() {
        KafkaException found = damaged;
        damaged = null;
        if (found != null) {
            throw found;
        }
    }
}
