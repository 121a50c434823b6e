package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.Test;

class HubRecordsTest {
    private static final TopicPartition ORDERS = new TopicPartition("hub.orders", 0);
    private static final TopicPartition OTHER = new TopicPartition("hub.other", 0);
    private static final PassedOrigins ORIGINS = new PassedOrigins("origin");
    private static final String MISFIT = KafkaShape.check("4.3.1");

    private final MockConsumer<byte[], byte[]> consumer =
        new MockConsumer<>(OffsetResetStrategy.EARLIEST);

    HubRecordsTest() {
        consumer.assign(List.of(ORDERS));
        consumer.updateBeginningOffsets(Map.of(ORDERS, 0L));
    }

    @Test
    void withAnotherClientARecordWithoutOriginIsRefusedAndSaidWhichClientItTakes() {
        HubRecords records = new HubRecords(consumer, ORIGINS, MISFIT);
        add(0, "own", "origin");
        add(1, "origin.cluster", "origin.topic");
        add(2, "quarantine.state");
        assertEquals(3, records.poll(Duration.ZERO).count());
        add(3, "own");
        String why = assertThrows(IllegalStateException.class, () -> records.poll(Duration.ZERO))
                         .getMessage();
        assertEquals(
            "hub.orders-0@3 has no origin in its headers. Its batch may have been copied as it is"
                + " (topics.copy_as: batches), which cannot be read: kafka-clients 4.3.1 is not the"
                + " version " + KafkaShape.VERSION + " that records are copied as bytes with."
                + " Remove the other kafka-clients from the class path, as of spark.jars",
            why);
    }

    @Test
    void whereNoOriginIsWantedNoneIsMissed() {
        HubRecords records = new HubRecords(consumer, null, MISFIT);
        add(0);
        assertEquals(1, records.poll(Duration.ZERO).count());
    }

    /** The consumer is beyond all that it has fetched, so nothing else would read it again. */
    @Test
    void behindABatchThatCannotBeReadNothingOfOtherPartitionsIsMissed() {
        consumer.updateBeginningOffsets(Map.of(ORDERS, 0L, OTHER, 0L));
        consumer.assign(List.of(ORDERS, OTHER));
        Few fetched = new Few();
        fetched.left.add(new Few.Item(ORDERS, 4, false));
        fetched.left.add(new Few.Item(ORDERS, 5, true));
        fetched.left.add(new Few.Item(ORDERS, 9, false));
        fetched.left.add(new Few.Item(OTHER, 7, false));
        HubRecords records = new HubRecords(consumer, fetched);
        List<String> found = new ArrayList<>();
        records.poll(Duration.ZERO).forEach(it -> found.add(it.topic() + "@" + it.offset()));
        assertEquals(List.of("hub.orders@4", "hub.other@7"), found);
        assertEquals(5, consumer.position(ORDERS));
        assertThrows(KafkaException.class, () -> records.poll(Duration.ZERO));
        assertEquals(0, records.poll(Duration.ZERO).count());
    }

    /** What was fetched: records, and batches that cannot be read. */
    private static final class Few extends Fetched {
        private record Item(TopicPartition of, long offset, boolean isDamaged) {}

        private final ArrayDeque<Item> left = new ArrayDeque<>();
        private Item at;

        @Override
        void add(ConsumerRecords<byte[], byte[]> polled) {
            // All is here.
        }

        @Override
        boolean more() {
            at = left.peek();
            if (at != null && at.isDamaged()) {
                left.remove();
                throw new KafkaException("it cannot be read");
            }
            return at != null;
        }

        @Override
        TopicPartition partition() {
            return at.of();
        }

        @Override
        void next() {
            left.remove();
        }

        @Override
        long offset() {
            return at.offset();
        }

        @Override
        void pass(Passing rule) {
            // Nothing goes as it is.
        }

        @Override
        long timestamp() {
            return 0;
        }

        @Override
        Optional<Integer> leaderEpoch() {
            return Optional.empty();
        }

        @Override
        int size() {
            return 0;
        }

        @Override
        ConsumerRecord<byte[], byte[]> record() {
            return new ConsumerRecord<>(
                at.of().topic(), at.of().partition(), at.offset(), null, null);
        }

        @Override
        BatchCursor cursor() {
            return null;
        }

        @Override
        long damagedAt() {
            return at.offset();
        }

        @Override
        void clear() {
            left.clear();
        }
    }

    private void add(long offset, String... headers) {
        RecordHeaders all = new RecordHeaders();
        for (String name : headers) {
            all.add(name, name.getBytes(StandardCharsets.UTF_8));
        }
        consumer.addRecord(new ConsumerRecord<>(
            ORDERS.topic(),
            ORDERS.partition(),
            offset,
            0,
            TimestampType.CREATE_TIME,
            0,
            0,
            null,
            null,
            all,
            Optional.empty()));
    }
}
