package aggregator.connector;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.function.BiConsumer;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads parts of hub partitions to their ends, with one consumer. */
final class HubReader {
    private static final long SILENCE_NANOS = 60_000_000_000L;
    /** The same where a topic may be left out: a leader that hangs is not to hold up the others. */
    private static final long LEFT_NANOS = 10_000_000_000L;
    private static final Duration POLL = Duration.ofMillis(200);
    /** Closing waits for the leaders to end its sessions: not for one that hangs. */
    static final Duration CLOSING = Duration.ofSeconds(1);

    private HubReader() {}

    /**
     * Hands on every record of these ranges [from, to), which are emptied; returns how many. Throws
     * what a consumer throws, and CancellationException.
     */
    static long read(
        Map<String, String> settings,
        Map<TopicPartition, long[]> ranges,
        BooleanSupplier cancelled,
        BiConsumer<TopicPartition, ConsumerRecord<byte[], byte[]>> take) {
        return read(() -> consumer(settings), ranges, cancelled, take, null, null, SILENCE_NANOS);
    }

    /**
     * The same, where a topic that cannot be read, or of which nothing comes, is left out: it is
     * put into `unread`, with the reason and the fix. Throws all else. Records of batches that were
     * copied as they are come with the origins that are known.
     */
    static long read(
        Supplier<? extends Consumer<byte[], byte[]>> open,
        Map<TopicPartition, long[]> ranges,
        BooleanSupplier cancelled,
        BiConsumer<TopicPartition, ConsumerRecord<byte[], byte[]>> take,
        Map<String, String> unread,
        PassedOrigins origins) {
        return read(open, ranges, cancelled, take, unread, origins, LEFT_NANOS);
    }

    static long read(
        Supplier<? extends Consumer<byte[], byte[]>> open,
        Map<TopicPartition, long[]> ranges,
        BooleanSupplier cancelled,
        BiConsumer<TopicPartition, ConsumerRecord<byte[], byte[]>> take,
        Map<String, String> unread,
        PassedOrigins origins,
        long silenceNanos) {
        long read = 0;
        // A client may ask a broker that hangs first of all; then nothing comes for half a minute.
        long patience = SILENCE_NANOS;
        long heard = System.nanoTime();
        Consumer<byte[], byte[]> hub = open.get();
        try {
            HubRecords records = new HubRecords(hub, origins);
            hub.assign(ranges.keySet());
            ranges.forEach((tp, bounds) -> hub.seek(tp, bounds[0]));
            while (!ranges.isEmpty()) {
                if (cancelled.getAsBoolean()) {
                    throw new CancellationException("stopped while the hub was read");
                }
                ConsumerRecords<byte[], byte[]> polled = ConsumerRecords.empty();
                boolean news = false;
                try {
                    polled = records.poll(POLL);
                } catch (KafkaException | IllegalStateException | IllegalArgumentException error) {
                    if (unread == null || !leaves(hub, ranges, error, unread)) {
                        throw error;
                    }
                    news = true;
                }
                read += hand(polled, ranges, take);
                news |= ranges.keySet().removeIf(tp -> hub.position(tp) >= ranges.get(tp)[1]);
                if (news) {
                    hub.assign(ranges.keySet());
                }
                if (news || !polled.isEmpty()) {
                    patience = silenceNanos;
                    heard = System.nanoTime();
                } else if (System.nanoTime() - heard > patience) {
                    if (unread == null) {
                        throw new IllegalStateException(
                            "the hub has answered nothing for a minute");
                    }
                    ranges.keySet().forEach(
                        tp
                        -> unread.put(
                            tp.topic(),
                            "the leader of partition " + tp.partition()
                                + " shows none of its records: does it hang?"));
                    ranges.clear();
                }
            }
        } finally {
            hub.close(CLOSING);
        }
        return read;
    }

    /** Hands on what of it is in these ranges; returns how many records. */
    private static long hand(
        ConsumerRecords<byte[], byte[]> polled,
        Map<TopicPartition, long[]> ranges,
        BiConsumer<TopicPartition, ConsumerRecord<byte[], byte[]>> take) {
        long handed = 0;
        for (TopicPartition tp : polled.partitions()) {
            for (ConsumerRecord<byte[], byte[]> record : polled.records(tp)) {
                if (record.offset() < ranges.get(tp)[1]) {
                    handed++;
                    take.accept(tp, record);
                }
            }
        }
        return handed;
    }

    /** Whether an error is of some topics alone; then these are read no more. */
    private static boolean leaves(
        Consumer<byte[], byte[]> hub,
        Map<TopicPartition, long[]> ranges,
        RuntimeException error,
        Map<String, String> unread) {
        if (error instanceof OffsetOutOfRangeException) {
            // Its log has changed since the ranges were planned: they are planned again.
            return false;
        }
        Map<String, String> found = new HashMap<>();
        if (error instanceof TopicAuthorizationException refused) {
            for (String topic : refused.unauthorizedTopics()) {
                found.put(topic, "it may not be read: grant READ on hub topic " + topic);
            }
        } else {
            List<TopicPartition> names = List.copyOf(ranges.keySet());
            Map<String, Integer> numbers = new HashMap<>();
            names.forEach(tp -> numbers.put(tp.toString(), names.indexOf(tp)));
            int at = Damage.of(error, numbers);
            if (at >= 0) {
                TopicPartition tp = names.get(at);
                found.put(
                    tp.topic(),
                    Damage.reason(error, tp, hub.position(tp))
                        + "; delete its records up to behind that with kafka-delete-records, or"
                        + " let a replica that has them lead");
            }
        }
        unread.putAll(found);
        return ranges.keySet().removeIf(tp -> found.containsKey(tp.topic()));
    }

    static KafkaConsumer<byte[], byte[]> consumer(Map<String, String> settings) {
        return new KafkaConsumer<>(
            new HashMap<>(settings), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
