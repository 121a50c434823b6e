package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.Test;

class WholeBatchesTest {
    private static final TopicPartition ORDERS = new TopicPartition("orders", 0);
    private static final String FROM_0 = "'topic': 'orders', 'partition': 0, 'position': 0";
    private static final long LONG_NANOS = WholeBatches.RECORDS_EVERY_NANOS;
    private static final long RUN_NANOS = WholeBatches.RUN_EVERY_NANOS;
    private static final int COUNT = 100;

    private long now = 7;
    private boolean limited;

    @Test
    void theFirstBatchGoesByRecordsAndThoseBehindItAsTheyAre() {
        WholeBatches rule = rule(1_000_000, "", FROM_0);
        assertFalse(takes(rule, 0));
        assertTrue(takes(rule, 100));
        rule.send(0, head(100));
        assertTrue(takes(rule, 200));
        assertFalse(takes(rule, 201), "a run begins at once");
    }

    @Test
    void oneInAMinuteGoesByRecordsAndARunBeginsBehindIt() {
        WholeBatches rule = begun("", FROM_0);
        long before = rule.send(0, head(100));
        assertEquals(before, rule.send(0, head(200)));
        now += LONG_NANOS;
        assertFalse(takes(rule, 300));
        assertTrue(takes(rule, 400));
        long after = rule.send(0, head(400));
        assertNotEquals(before, after);
        assertEquals(PassedOrigin.name("eu", "orders", 0), PassedOrigin.nameOf(after));
        assertEquals(PassedOrigin.nameOf(before), PassedOrigin.nameOf(after));
    }

    @Test
    void behindAHoleBatchesGoByRecordsUntilARunMayBegin() {
        WholeBatches rule = begun("", FROM_0);
        long before = rule.send(0, head(100));
        assertFalse(takes(rule, 201));
        now += RUN_NANOS;
        assertTrue(takes(rule, 201));
        assertNotEquals(before, rule.send(0, head(201)));
    }

    @Test
    void smallBatchesBetweenLargeOnesEndNoRunWhileTheirRequestsAreWorthIt() {
        WholeBatches rule = begun("", FROM_0);
        long run = rule.send(0, large(100));
        int few = large(100).size() / WholeBatches.REQUEST_BYTES - 1;
        assertTrue(few > 1);
        long next = 100 + COUNT;
        for (int turn = 0; turn < 50; turn++) {
            for (int i = 0; i < few; i++) {
                assertTrue(rule.takes(ORDERS, small(next), 0));
                assertEquals(run, rule.send(0, small(next)));
                next++;
            }
            assertTrue(turn > 0 || !rule.takes(ORDERS, small(next), 0));
            assertTrue(rule.takes(ORDERS, large(next), 0));
            assertEquals(run, rule.send(0, large(next)));
            next += COUNT;
        }
    }

    @Test
    void smallBatchesThatFollowNoneGoByRecordsAndSoDoThoseBetweenOnesThatAreHardlyLarger() {
        WholeBatches rule = begun("", FROM_0);
        now += RUN_NANOS;
        assertFalse(rule.takes(ORDERS, small(200), 0), "it would begin a run");
        for (int turn = 1; turn <= 30; turn++) {
            rule.send(0, head(100L * turn));
            assertFalse(rule.takes(ORDERS, small(100L * turn + COUNT), 0));
        }
        for (int turn = 31; turn <= 60; turn++) {
            rule.send(0, large(100L * turn));
        }
        assertTrue(rule.takes(ORDERS, small(6_100), 0));
    }

    @Test
    void aRunEndsWhereSequencesBeginAgain() {
        WholeBatches rule = begun("", FROM_0);
        long last = (1L << 31) - COUNT;
        now += RUN_NANOS;
        long before = rule.send(0, head(last));
        assertTrue(takes(rule, 1L << 31));
        assertNotEquals(before, rule.send(0, head(1L << 31)));
        assertFalse(takes(rule, (2L << 31) - 3));
    }

    @Test
    void whatIsSkippedOrBehindTheEndOrOnlyPartlyWantedGoesByRecords() {
        WholeBatches rule = begun("", FROM_0 + ", 'until': 350, 'skip': [[20, 120], [140, 150]]");
        assertFalse(takes(rule, 100));
        assertTrue(takes(rule, 150));
        assertTrue(takes(rule, 250));
        assertFalse(takes(rule, 251), "the last one is behind the end");
        assertFalse(rule.takes(ORDERS, head(200), 201));
    }

    @Test
    void whileALimitHoldsAllGoByRecords() {
        WholeBatches rule = begun("", FROM_0);
        limited = true;
        assertFalse(takes(rule, 100));
        limited = false;
        assertTrue(takes(rule, 100));
    }

    @Test
    void whatOthersHaveCopiedGoesByRecordsWhicheverItsCodecAndItsForm() {
        for (CompressionType codec : CompressionType.values()) {
            for (long producer : new long[] {-1, 9}) {
                for (String name : new String[] {"origin", "origin.cluster"}) {
                    assertFalse(begun("", FROM_0).takes(ORDERS, from(producer, codec, name), 0));
                }
                WholeBatches rule = begun("", FROM_0);
                assertTrue(rule.takes(ORDERS, from(producer, codec, "origins"), 0), codec.name);
            }
        }
    }

    @Test
    void aProducerOfWhichABatchWasLookedAtIsKnown() {
        WholeBatches rule = begun("", FROM_0);
        assertTrue(rule.takes(ORDERS, from(8, CompressionType.NONE, "own"), 0));
        assertTrue(rule.takes(ORDERS, from(8, CompressionType.NONE, "origin"), 0));
        assertFalse(rule.takes(ORDERS, from(9, CompressionType.NONE, "origin"), 0));
    }

    @Test
    void aBatchThatCannotBeReadGoesByRecords() {
        WholeBatches rule = begun("", FROM_0);
        BatchHead damaged = from(-1, CompressionType.ZSTD, "own");
        Arrays.fill(
            damaged.bytes().array(), BatchFormat.RECORDS_AT, damaged.bytes().limit(), (byte) 7);
        assertFalse(rule.takes(ORDERS, damaged, 0));
    }

    @Test
    void aPartitionWhoseBatchesDoNotShowThatTheHubIsASourceOfItGoesByRecordsForGood() {
        WholeBatches rule = begun("", FROM_0);
        rule.bar(0, from(9, CompressionType.LZ4, "origin"));
        assertTrue(takes(rule, 200), "the batch shows it");
        rule.bar(0, head(200));
        now += LONG_NANOS;
        assertFalse(takes(rule, 100));
        assertFalse(takes(rule, 200));
    }

    @Test
    void withoutTheSettingAllGoByRecords() {
        WholeBatches rule = rule(0, "", FROM_0);
        now += 2 * LONG_NANOS;
        assertFalse(takes(rule, 0));
        assertFalse(takes(rule, 100));
        rule.bar(0, head(100));
    }

    @Test
    void aBatchThatItsHubTopicDoesNotTakeGoesByRecords() {
        int size = head(100).size();
        WholeBatches rule = rule(size, "", FROM_0);
        takes(rule, 0);
        assertTrue(takes(rule, 100));
        rule = rule(size - 1, "", FROM_0);
        takes(rule, 0);
        assertFalse(takes(rule, 100));
    }

    @Test
    void whatAHubTopicMayRefuseGoesByRecords() {
        assertTrue(takes(begun("'max_bytes': 20000", FROM_0), 100));
        assertFalse(takes(begun("'max_bytes': 9000", FROM_0), 100));
        assertFalse(takes(begun("'key_required': true", FROM_0), 100));
        assertFalse(takes(begun("'behind_ms': 1000000000000000", FROM_0), 100));
        assertTrue(takes(begun("'ahead_ms': 1000", FROM_0), 100));
        long ahead = System.currentTimeMillis() + 3_600_000;
        BatchHead future = BatchHead.of(records(100, ahead, TimestampType.CREATE_TIME, 0));
        assertFalse(begun("'ahead_ms': 1000", FROM_0).takes(ORDERS, future, 0));
    }

    @Test
    void onlyAWholeBatchWithTimestampsOfItsProducerAndOfNoTransactionIsPlain() {
        assertTrue(head(5).isPlain());
        assertFalse(BatchHead.of(records(5, 1_000, TimestampType.LOG_APPEND_TIME, 0)).isPlain());
        assertFalse(BatchHead.of(records(5, -1, TimestampType.CREATE_TIME, 0)).isPlain());
        assertFalse(BatchHead.of(records(5, 1_000, TimestampType.CREATE_TIME, 1)).isPlain());
        assertFalse(BatchHead.of(transactional()).isPlain());
        ByteBuffer old = records(5, 1_000, TimestampType.CREATE_TIME, 0);
        old.put(BatchFormat.MAGIC_AT, (byte) 1);
        assertFalse(BatchHead.of(old).isPlain());
        BatchHead found = BatchHead.of(ByteBuffer.allocate(30_000)
                                           .position(17)
                                           .put(records(5, 9, TimestampType.CREATE_TIME, 0))
                                           .flip()
                                           .position(17));
        assertEquals(5, found.first());
        assertEquals(5 + COUNT - 1, found.last());
        assertEquals(COUNT, found.count());
        assertEquals(9, found.newest());
        assertTrue(found.isPlain());
    }

    /** A rule that takes whole batches by now, but for a reason that a test is about. */
    private WholeBatches begun(String limits, String part) {
        WholeBatches rule = rule(1_000_000, limits, part);
        // Below the skip sets of these tests it would not come so far.
        assertFalse(rule.takes(ORDERS, small(0), 0));
        now += RUN_NANOS;
        rule.takes(ORDERS, head(150), 0);
        return rule;
    }

    private WholeBatches rule(int batchBytes, String limits, String part) {
        return new WholeBatches(
            Specs.copying(batchBytes, limits, part), name -> 0, () -> limited, () -> now);
    }

    private static boolean takes(WholeBatches rule, long first) {
        return rule.takes(ORDERS, head(first), 0);
    }

    private static BatchHead head(long first) {
        return BatchHead.of(records(first, 1_000, TimestampType.CREATE_TIME, 0));
    }

    /** A batch of a producer, -1 for none, whose records have a header of this name. */
    private static BatchHead from(long producer, CompressionType codec, String name) {
        Header[] headers = {
            new RecordHeader("of its own", null),
            new RecordHeader(name, "us/o/0/1".getBytes(StandardCharsets.UTF_8))};
        byte[] noise = new byte[COUNT * 100];
        new Random(5).nextBytes(noise);
        SimpleRecord[] all = new SimpleRecord[COUNT];
        for (int i = 0; i < COUNT; i++) {
            byte[] value = Arrays.copyOfRange(noise, i * 100, i * 100 + 100);
            all[i] = new SimpleRecord(1_000, null, value, headers);
        }
        Compression how = Compression.of(codec).build();
        return BatchHead.of((producer < 0 ? MemoryRecords.withRecords(100, how, all)
                                          : MemoryRecords.withIdempotentRecords(
                                                100, how, producer, (short) 0, 0, -1, all))
                                .buffer());
    }

    /** More than three requests are worth. */
    private static BatchHead large(long first) {
        SimpleRecord[] all = new SimpleRecord[COUNT];
        Arrays.fill(all, new SimpleRecord(1_000, null, new byte[2_100]));
        return BatchHead.of(MemoryRecords.withRecords(first, Compression.NONE, all).buffer());
    }

    private static BatchHead small(long first) {
        return BatchHead.of(
            MemoryRecords
                .withRecords(first, Compression.NONE, new SimpleRecord(1_000, null, new byte[] {1}))
                .buffer());
    }

    /** A batch of a hundred records; `left` of them compaction has taken. */
    private static ByteBuffer records(long first, long timestamp, TimestampType type, int left) {
        MemoryRecords made = MemoryRecords.withRecords(
            RecordBatch.MAGIC_VALUE_V2, first, Compression.NONE, type, all(timestamp));
        ByteBuffer bytes = made.buffer();
        bytes.putInt(BatchFormat.COUNT_AT, COUNT - left);
        return bytes;
    }

    private static ByteBuffer transactional() {
        return MemoryRecords.withTransactionalRecords(Compression.NONE, 1, (short) 1, 1, all(1_000))
            .buffer();
    }

    private static SimpleRecord[] all(long timestamp) {
        List<SimpleRecord> all = new ArrayList<>();
        for (int i = 0; i < COUNT; i++) {
            all.add(new SimpleRecord(timestamp, null, new byte[100]));
        }
        return all.toArray(new SimpleRecord[0]);
    }
}
