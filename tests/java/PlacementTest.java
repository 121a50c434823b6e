package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;
import org.junit.jupiter.api.Test;

class PlacementTest {
    private static final int CHUNK = Placement.CHUNK;

    @Test
    void aKeyGoesWhereEveryKafkaProducerSendsIt() {
        Random random = new Random(7);
        for (int partitions : new int[] {1, 2, 3, 12, 97, 1000}) {
            Placement placement = Placement.of("key", partitions, 0);
            Set<Integer> seen = new HashSet<>();
            for (int i = 0; i < 500; i++) {
                byte[] key = new byte[random.nextInt(40)];
                random.nextBytes(key);
                int at = placement.of(key, random.nextInt(9), random.nextLong());
                assertEquals(BuiltInPartitioner.partitionForKey(key, partitions), at);
                seen.add(at);
            }
            assertTrue(seen.size() >= Math.min(partitions, 200), partitions + ": " + seen.size());
        }
    }

    @Test
    void aKeyWhoseHashIsBelowZeroHasAPartitionToo() {
        // Known values of Kafka's murmur2: aggregator/plan/lanes/murmur2.py is tested with the
        // same.
        byte[] below = "foobar".getBytes(StandardCharsets.UTF_8);
        assertEquals(-790332482, Utils.murmur2(below));
        assertEquals((-790332482 & 0x7fffffff) % 12, Placement.of("key", 12, 0).of(below, 3, 4));
        byte[] above = "abc".getBytes(StandardCharsets.UTF_8);
        assertEquals(479470107 % 12, Placement.of("key", 12, 0).of(above, 3, 4));
    }

    @Test
    void anEmptyKeyIsAKey() {
        Placement placement = Placement.of("key", 50, 0);
        int expected = BuiltInPartitioner.partitionForKey(new byte[0], 50);
        for (int chunk = 0; chunk < 50; chunk++) {
            assertEquals(expected, placement.of(new byte[0], 1, (long) chunk * CHUNK));
        }
    }

    @Test
    void recordsWithoutAKeyStayTogetherForAChunkOfOffsets() {
        Placement placement = Placement.of("key", 5, 0);
        for (long chunk = 0; chunk < 10; chunk++) {
            int first = placement.of(null, 2, chunk * CHUNK);
            for (long offset = chunk * CHUNK; offset < (chunk + 1) * CHUNK; offset++) {
                assertEquals(first, placement.of(null, 2, offset), "offset " + offset);
            }
            assertEquals((first + 1) % 5, placement.of(null, 2, (chunk + 1) * CHUNK));
        }
    }

    @Test
    void recordsWithoutAKeyAreSpreadOverAllPartitionsInEqualParts() {
        Placement placement = Placement.of("key", 6, 0);
        int[] chunks = new int[6];
        for (int partition = 0; partition < 4; partition++) {
            for (long chunk = 0; chunk < 18; chunk++) {
                chunks[placement.of(null, partition, chunk * CHUNK)]++;
            }
        }
        for (int each : chunks) {
            assertEquals(4 * 18 / 6, each);
        }
        // Partitions of a topic begin each at another place.
        assertEquals(1, placement.of(null, 1, 0L));
        assertEquals(0, placement.of(null, 6, 0L));
    }

    @Test
    void theAnswerIsTheSameWhenItIsAskedAgainWhateverWasAskedInBetween() {
        Random random = new Random(3);
        for (String rule : new String[] {"key", "source_partition", "round_robin", "cluster"}) {
            Placement placement = Placement.of(rule, 7, 5);
            Placement again = Placement.of(rule, 7, 5);
            for (int i = 0; i < 200; i++) {
                byte[] key = random.nextBoolean() ? null : new byte[] {(byte) i};
                int partition = random.nextInt(20);
                long offset = random.nextLong(1L << 40);
                int at = placement.of(key, partition, offset);
                assertTrue(0 <= at && at < 7, rule + ": " + at);
                placement.of(null, random.nextInt(20), random.nextLong(1L << 40));
                assertEquals(at, placement.of(key, partition, offset));
                assertEquals(at, again.of(key, partition, offset));
            }
        }
    }

    @Test
    void bySourcePartitionEachGoesToItsOwnNumberAndBeginsAnewBehindTheLast() {
        Placement placement = Placement.of("source_partition", 3, 0);
        for (int partition = 0; partition < 9; partition++) {
            assertEquals(partition % 3, placement.of(new byte[] {1}, partition, 77));
            assertEquals(partition % 3, placement.of(null, partition, 5L * CHUNK));
        }
    }

    @Test
    void byRoundRobinEachOffsetGoesToTheNextPartition() {
        Placement placement = Placement.of("round_robin", 3, 0);
        byte[] key = {1};
        for (long offset = 0; offset < 9; offset++) {
            assertEquals(offset % 3, placement.of(key, 0, offset));
            assertEquals((offset + 2) % 3, placement.of(null, 2, offset));
        }
        assertEquals((Long.MAX_VALUE - 5) % 3, placement.of(key, 0, Long.MAX_VALUE - 5));
    }

    @Test
    void byClusterEverythingGoesToOnePartition() {
        Placement placement = Placement.of("cluster", 9, 4);
        for (int i = 0; i < 20; i++) {
            assertEquals(4, placement.of(new byte[] {(byte) i}, i, (long) i * CHUNK));
            assertEquals(4, placement.of(null, i, (long) i));
        }
    }

    @Test
    void aRuleThatDoesNotExistIsRefused() {
        assertThrows(IllegalArgumentException.class, () -> Placement.of("sticky", 3, 0));
    }
}
