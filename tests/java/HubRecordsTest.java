package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.Test;

class HubRecordsTest {
    private static final TopicPartition ORDERS = new TopicPartition("hub.orders", 0);
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
