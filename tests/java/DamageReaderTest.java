package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class DamageReaderTest {
    private static final TopicPartition ONE = new TopicPartition("orders", 0);
    private static final String WRAPPED =
        "Received exception when fetching the next record from orders-0. If needed, please seek";

    private final SourceLog source = new SourceLog();

    @Test
    void aRecordOrAMarkerCanBeRead() {
        source.with("orders", 0, 0, 1, 2);
        source.end("orders", 0, 5);
        DamageReader reader = new DamageReader(source.open(Map.of()));
        assertEquals("{\"readable\":true}", reader.met("orders", 0, 1, 9_000));
        assertEquals("{\"readable\":true}", reader.met("orders", 0, 3, 9_000));
    }

    @Test
    void aBatchIsNamedByItsFirstOffset() {
        KafkaException sum = new KafkaException(
            "Record batch for partition orders-0 at offset 5 is invalid, cause: sum");
        assertEquals(
            "{\"batch\":5,\"reason\":\"offset 7 of orders-0 cannot be read: " + sum.getMessage()
                + "\"}",
            met(new KafkaException(WRAPPED, sum)));
    }

    @Test
    void ofWhatCannotBeDecompressedNoBatchIsNamed() {
        assertEquals(
            "{\"batch\":-1,\"reason\":\"offset 7 of orders-0 cannot be read: not lz4\"}",
            met(new KafkaException(WRAPPED, new KafkaException("not lz4"))));
    }

    @Test
    void whatSaysNothingOfTheLogIsNoAnswer() {
        assertEquals("{}", met(new SaslAuthenticationException("orders-0")));
        assertEquals("{}", met(new KafkaException("another one")));
    }

    private static String met(KafkaException failure) {
        MockConsumer<byte[], byte[]> consumer = new MockConsumer<>(OffsetResetStrategy.NONE);
        consumer.updateBeginningOffsets(Map.of(ONE, 0L));
        consumer.setPollException(failure);
        return new DamageReader(consumer).met("orders", 0, 7, 9_000);
    }
}
