package aggregator.connector;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.function.BiConsumer;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads parts of hub partitions to their ends, with one consumer. */
final class HubReader {
    private static final long SILENCE_NANOS = 60_000_000_000L;
    private static final Duration POLL = Duration.ofMillis(200);

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
        long read = 0;
        long heard = System.nanoTime();
        try (KafkaConsumer<byte[], byte[]> hub = consumer(settings)) {
            hub.assign(ranges.keySet());
            ranges.forEach((tp, bounds) -> hub.seek(tp, bounds[0]));
            while (!ranges.isEmpty()) {
                if (cancelled.getAsBoolean()) {
                    throw new CancellationException("stopped while the hub was read");
                }
                ConsumerRecords<byte[], byte[]> polled = hub.poll(POLL);
                for (TopicPartition tp : polled.partitions()) {
                    for (ConsumerRecord<byte[], byte[]> record : polled.records(tp)) {
                        if (record.offset() < ranges.get(tp)[1]) {
                            read++;
                            take.accept(tp, record);
                        }
                    }
                }
                boolean news =
                    ranges.keySet().removeIf(tp -> hub.position(tp) >= ranges.get(tp)[1]);
                if (news) {
                    hub.assign(ranges.keySet());
                }
                if (news || !polled.isEmpty()) {
                    heard = System.nanoTime();
                } else if (System.nanoTime() - heard > SILENCE_NANOS) {
                    throw new IllegalStateException("the hub has answered nothing for a minute");
                }
            }
        }
        return read;
    }

    static KafkaConsumer<byte[], byte[]> consumer(Map<String, String> settings) {
        return new KafkaConsumer<>(
            new HashMap<>(settings), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
