package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class LogEndsTest {
    private static final long SECOND = 1_000_000_000L;
    private static final long MS = 1_000_000L;

    /** Two partitions of one topic, each with a broker of its own. */
    private static final class Known implements LogEnds.Sight {
        private final Map<TopicPartition, Long> ends = new HashMap<>();
        private final Map<Integer, Double> answers = new HashMap<>();
        private final Set<Integer> owing = new HashSet<>();
        private final Set<Integer> away = new HashSet<>();
        private String id = "one";

        @Override
        public long end(TopicPartition of) {
            return ends.getOrDefault(of, -1L);
        }

        @Override
        public int leader(TopicPartition of) {
            return away.contains(of.partition()) ? -1 : of.partition();
        }

        @Override
        public boolean owes(int node) {
            return owing.contains(node);
        }

        @Override
        public double answers(int node) {
            return answers.getOrDefault(node, 0.0);
        }

        @Override
        public String topicId(String topic) {
            return id;
        }

        @Override
        public void waitAtLeast(int millis) {
            throw new UnsupportedOperationException();
        }
    }

    private final Known known = new Known();
    private final BitSet both = BitSet.valueOf(new long[] {3});
    private final LogEnds logs = new LogEnds(
        Specs.task(
            "'topic': 'orders', 'partition': 0, 'position': 0",
            "'topic': 'orders', 'partition': 1, 'position': 0"),
        2 * SECOND);

    private void end(int partition, long at) {
        known.ends.put(new TopicPartition("orders", partition), at);
    }

    private Map<String, long[]> look(long now) {
        logs.look(known, both, now);
        return logs.take(now);
    }

    @Test
    void onlyWhatHasChangedIsReported() {
        assertEquals(Map.of(), look(0));
        end(0, 5);
        end(1, 6);
        assertEquals(Set.of("orders/0", "orders/1"), look(0).keySet());
        assertEquals(Map.of(), look(0));
        end(1, 7);
        Map<String, long[]> found = look(0);
        assertEquals(Set.of("orders/1"), found.keySet());
        assertArrayEquals(new long[] {7, -1, 0}, found.get("orders/1"));
        logs.again();
        assertEquals(2, logs.take(0).size());
    }

    @Test
    void ofAPartitionThatIsNotReadNothingIsKnown() {
        end(0, 5);
        end(1, 6);
        look(0);
        logs.look(known, BitSet.valueOf(new long[] {1}), 0);
        assertArrayEquals(new long[] {-1, -1, 0}, logs.take(0).get("orders/1"));
        logs.forget();
        assertEquals(Set.of("orders/0"), logs.take(0).keySet());
    }

    @Test
    void ofAPartitionWithoutALeaderNoEndIsKnown() {
        end(0, 5);
        end(1, 6);
        look(0);
        known.away.add(1);
        assertArrayEquals(new long[] {-1, -1, 0}, look(SECOND).get("orders/1"));
        assertEquals(Map.of(), look(3 * SECOND));
        assertEquals(3_000, look(4 * SECOND).get("orders/1")[1]);
        known.away.clear();
        assertArrayEquals(new long[] {6, -1, 0}, look(5 * SECOND).get("orders/1"));
    }

    @Test
    void aLogThatEndsLowerAndATopicWithAnotherIdAreDoubts() {
        end(0, 5);
        end(1, 6);
        look(0);
        end(0, 4);
        assertArrayEquals(new long[] {4, -1, 1}, look(0).get("orders/0"));
        known.id = "";
        assertEquals(Map.of(), look(0));
        known.id = "two";
        Map<String, long[]> found = look(0);
        assertEquals(2, found.get("orders/0")[2]);
        assertEquals(1, found.get("orders/1")[2]);
        assertEquals(Map.of(), look(0));
    }

    @Test
    void aBrokerIsLateFromItsFirstOpenFetchUntilItAnswers() {
        end(0, 5);
        end(1, 6);
        known.owing.add(1);
        look(SECOND);
        assertEquals(Map.of(), look(3 * SECOND));
        Map<String, long[]> found = look(4 * SECOND);
        assertEquals(Set.of("orders/1"), found.keySet());
        assertEquals(3 * SECOND / MS, found.get("orders/1")[1]);
        // Its connection was given up, and no other fetch could be sent.
        known.owing.clear();
        assertEquals(Map.of(), look(5 * SECOND));
        known.answers.put(1, 1.0);
        assertEquals(-1, look(6 * SECOND).get("orders/1")[1]);
        assertEquals(Map.of(), look(9 * SECOND));
    }

    @Test
    void aBrokerThatIsReplacedByNoneStaysLate() {
        end(0, 5);
        end(1, 6);
        known.owing.add(1);
        look(SECOND);
        look(4 * SECOND);
        known.away.add(1);
        assertEquals(4_000, look(5 * SECOND).get("orders/1")[1]);
    }

    @Test
    void aBrokerThatAnswersEachFetchIsNeverLate() {
        end(0, 5);
        end(1, 6);
        known.owing.addAll(Set.of(0, 1));
        look(0);
        for (int second = 1; second < 9; second++) {
            known.answers.put(0, (double) second);
            known.answers.put(1, (double) second);
            assertTrue(look(second * SECOND).isEmpty());
        }
    }
}
