package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class HubReaderTest {
    private static final TopicPartition ONE = new TopicPartition("orders", 0);
    private static final TopicPartition OTHER = new TopicPartition("orders", 1);
    private static final TopicPartition TWO = new TopicPartition("payments", 0);

    private final SourceLog hub = new SourceLog();
    private final TreeSet<String> found = new TreeSet<>();
    private final Map<String, String> unread = new HashMap<>();

    HubReaderTest() {
        hub.with("orders", 0, 0, 1, 2).with("orders", 1, 0, 1).with("payments", 0, 0, 1);
    }

    @Test
    void everythingUpToTheEndsIsRead() {
        assertEquals(6, read(unread));
        assertEquals(
            "[orders-0@0, orders-0@1, orders-0@2, orders-1@0, orders-1@1, payments-0@0]",
            found.toString());
        assertEquals(Map.of(), unread);
        assertTrue(hub.reader().closed());
        // As long as leaders take to end its sessions, and not as long as one that hangs does.
        assertEquals(Duration.ofSeconds(1), hub.reader().closing);
    }

    @Test
    void aTopicThatMayNotBeReadIsLeftOutWithTheRightThatItTakes() {
        hub.refused.add("orders");
        read(unread);
        assertTrue(found.contains("payments-0@0"));
        assertEquals(
            Map.of("orders", "it may not be read: grant READ on hub topic orders"), unread);
    }

    @Test
    void aTopicWithADamagedBatchIsLeftOutWithItsPlace() {
        hub.damaged.put(ONE, 1L);
        read(unread);
        assertTrue(found.contains("payments-0@0"));
        assertTrue(unread.get("orders").startsWith("offset 1 of orders-0 cannot be read: "));
        assertTrue(unread.get("orders").contains("kafka-delete-records"));
    }

    @Test
    void aTopicOfWhichNothingComesIsLeftOutWhenTheOthersAreRead() {
        Map<TopicPartition, long[]> ranges = new HashMap<>(
            Map.of(ONE, new long[] {0, 3}, OTHER, new long[] {0, 4}, TWO, new long[] {0, 1}));
        assertEquals(6, read(ranges, unread, 300_000_000L));
        assertEquals(
            Map.of("orders", "the leader of partition 1 shows none of its records: does it hang?"),
            unread);
        assertTrue(hub.reader().closed());
    }

    @Test
    void allElseIsThrownAndSoAreTheseWhereNoTopicMayBeMissing() {
        hub.damaged.put(ONE, 1L);
        assertThrows(KafkaException.class, () -> read(null));
        hub.openFailures.add(new SaslAuthenticationException("no"));
        assertThrows(SaslAuthenticationException.class, () -> read(unread));
        assertEquals(Map.of(), unread);
    }

    private long read(Map<String, String> leftOut) {
        Map<TopicPartition, long[]> ranges = new HashMap<>(
            Map.of(ONE, new long[] {0, 3}, OTHER, new long[] {0, 2}, TWO, new long[] {0, 1}));
        return read(ranges, leftOut, 60_000_000_000L);
    }

    private long read(
        Map<TopicPartition, long[]> ranges, Map<String, String> leftOut, long silenceNanos) {
        return HubReader.read(
            ()
                -> hub.open(Map.of()),
            ranges,
            ()
                -> false,
            (tp, record)
                -> found.add(tp + "@" + record.offset()),
            leftOut,
            null,
            silenceNanos);
    }
}
