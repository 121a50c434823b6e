package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.SimpleRecord;
import org.junit.jupiter.api.Test;

class PassedOriginTest {
    private static final long TWO_31 = 1L << 31;
    private static final OriginReader READER = new OriginReader(Specs.origin());

    @Test
    void anIdNamesItsSourcePartitionInEachRun() {
        Set<Long> names = new HashSet<>();
        for (String topic : List.of("orders", "orders2", "a.b")) {
            for (int partition = 0; partition < 200; partition++) {
                long name = PassedOrigin.name("eu", topic, partition);
                assertTrue(names.add(name));
                for (int run : new int[] {0, 1, 16_383, 16_384, -1, Integer.MIN_VALUE}) {
                    long id = PassedOrigin.withRun(name, run);
                    assertTrue(PassedOrigin.isPassed(id));
                    assertEquals(name, PassedOrigin.nameOf(id));
                }
            }
        }
        // What is recorded in hubs stays what it means.
        assertEquals(0x68d087352586c000L, PassedOrigin.name("eu", "orders", 5));
        long name = PassedOrigin.name("eu", "orders", 5);
        assertNotEquals(PassedOrigin.withRun(name, 1), PassedOrigin.withRun(name, 2));
    }

    @Test
    void anIdOfABrokerIsNone() {
        for (long id : new long[] {-1, 0, 1_000, Integer.MAX_VALUE, 1L << 61}) {
            assertFalse(PassedOrigin.isPassed(id));
        }
    }

    @Test
    void epochAndSequenceAreTheOffset() {
        for (long offset : new long[] {
                 0, 1, TWO_31 - 1, TWO_31, TWO_31 + 1, 5 * TWO_31 - 1, TWO_31 * 32_767, 1L << 45}) {
            short epoch = PassedOrigin.epoch(offset);
            int sequence = PassedOrigin.sequence(offset);
            assertTrue(epoch >= 0 && sequence >= 0);
            assertEquals(offset, PassedOrigin.offset(epoch, sequence));
        }
    }

    @Test
    void aBatchOverTheEndOfSequencesOrOfOffsetsIsNotHeld() {
        assertTrue(PassedOrigin.holds(0, TWO_31 - 1));
        assertTrue(PassedOrigin.holds(TWO_31, TWO_31 + 5));
        assertFalse(PassedOrigin.holds(TWO_31 - 1, TWO_31));
        assertTrue(PassedOrigin.holds((1L << 46) - 2, (1L << 46) - 1));
        assertFalse(PassedOrigin.holds(1L << 46, 1L << 46));
        assertFalse(PassedOrigin.holds(-1, 3));
    }

    @Test
    void recordsOfAPassedBatchHaveTheirOriginAlsoWhereSomeAreGone() {
        PassedOrigins known = new PassedOrigins("origin");
        known.know("eu", "orders", 5);
        long id = PassedOrigin.withRun(PassedOrigin.name("eu", "orders", 5), 77);
        long first = 3 * TWO_31 + 1_000;
        // At the hub it begins with offset 40, and compaction has taken all but two.
        BatchCursor cursor = new BatchCursor();
        cursor.open(batch(id, first, 40, 0, 2), 0);
        List<OriginReader.Origin> found = new ArrayList<>();
        while (cursor.next()) {
            RecordHeaders headers = cursor.headers();
            known.append(headers, cursor);
            found.add(READER.read(headers));
        }
        OriginReader.Place place = new OriginReader.Place("eu", "orders", 5);
        assertEquals(
            List.of(
                new OriginReader.Origin(place, first), new OriginReader.Origin(place, first + 2)),
            found);
    }

    @Test
    void recordsOfOtherBatchesAndOfUnknownPartitionsGetNone() {
        PassedOrigins known = PassedOrigins.of(
            Specs.json("{'header': 'origin', 'topics': [['eu', 'orders', 3], ['us', 'x', 1]]}"));
        assertEquals("[origin]", seen(known, PassedOrigin.name("eu", "orders", 2)).toString());
        assertEquals("[origin]", seen(known, PassedOrigin.name("us", "x", 0)).toString());
        assertEquals("[]", seen(known, PassedOrigin.name("eu", "orders", 3)).toString());
        assertEquals("[]", seen(known, 12).toString());
        assertEquals("[]", seen(known, -1).toString());
        assertNull(READER.read(new RecordHeaders()));
    }

    @Test
    void whereAnyIsWantedRecordsOfUnknownPartitionsGetOneThatNamesNone() {
        PassedOrigins any = PassedOrigins.of(
            Specs.json("{'header': 'origin', 'topics': [['eu', 'orders', 3]], 'any': true}"));
        assertEquals("[origin]", seen(any, PassedOrigin.name("eu", "orders", 2)).toString());
        assertEquals("[origin]", seen(any, PassedOrigin.name("us", "x", 0)).toString());
        assertEquals("[]", seen(any, 12).toString());
        assertNull(any.place(PassedOrigin.name("us", "x", 0)));
        Origin guard = new Origin(Json.parse(Specs.ORIGIN.replace("høb", "*")), "eü");
        BatchCursor cursor = new BatchCursor();
        cursor.open(batch(PassedOrigin.name("us", "x", 0), 10, 0, 0), 0);
        assertTrue(cursor.next());
        RecordHeaders headers = new RecordHeaders();
        any.append(headers, cursor);
        assertTrue(guard.fromHub(headers));
    }

    private static List<String> seen(PassedOrigins known, long id) {
        BatchCursor cursor = new BatchCursor();
        cursor.open(batch(id, 10, 0, 0), 0);
        assertTrue(cursor.next());
        RecordHeaders headers = new RecordHeaders();
        known.append(headers, cursor);
        List<String> names = new ArrayList<>();
        headers.forEach(each -> names.add(each.key()));
        return names;
    }

    /** A batch whose records have these places in it, at a hub offset. */
    private static ByteBuffer batch(long id, long first, long hubOffset, int... places) {
        List<SimpleRecord> records = new ArrayList<>();
        for (int i = 0; i < places[places.length - 1] + 1; i++) {
            records.add(new SimpleRecord(1_700_000_000_000L, null, new byte[] {(byte) i}));
        }
        MemoryRecords whole = MemoryRecords.withIdempotentRecords(
            hubOffset,
            Compression.NONE,
            Math.max(-1, id),
            id < 0 ? (short) -1 : PassedOrigin.epoch(first),
            id < 0 ? -1 : PassedOrigin.sequence(first),
            -1,
            records.toArray(new SimpleRecord[0]));
        if (places.length == records.size()) {
            return whole.buffer();
        }
        // As a broker that compacts writes it.
        MemoryRecords.RecordFilter keep = new MemoryRecords.RecordFilter(0, 0) {
            @Override
            protected BatchRetentionResult checkBatchRetention(
                org.apache.kafka.common.record.RecordBatch batch) {
                return new BatchRetentionResult(BatchRetention.RETAIN_EMPTY, false);
            }

            @Override
            protected boolean shouldRetainRecord(
                org.apache.kafka.common.record.RecordBatch batch,
                org.apache.kafka.common.record.Record record) {
                return java.util.Arrays.stream(places).anyMatch(
                    it -> it == record.offset() - batch.baseOffset());
            }
        };
        ByteBuffer into = ByteBuffer.allocate(1_000);
        whole.filterTo(
            new org.apache.kafka.common.TopicPartition("t", 0),
            keep,
            into,
            Integer.MAX_VALUE,
            org.apache.kafka.common.utils.BufferSupplier.NO_CACHING);
        into.flip();
        assertEquals(CompressionType.NONE.id, into.getShort(BatchFormat.ATTRIBUTES_AT));
        return into;
    }
}
