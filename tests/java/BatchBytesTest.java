package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Utils;
import org.junit.jupiter.api.Test;
import org.xerial.snappy.Snappy;

/** Batches read and written as bytes, beside Kafka's own reader and writer of the same ones. */
class BatchBytesTest {
    private static final int ROUNDS = 150;
    private static final Duration DEADLINE = Duration.ofSeconds(20);
    private static final CompressionType[] CODECS = CompressionType.values();
    private static final int[] LENGTHS = {0, 1, 63, 64, 8191, 8192, 70_000};

    private final Random random = new Random(7);
    private final BatchCursor cursor = new BatchCursor();
    private final Map<CompressionType, BatchPacker> packers = new HashMap<>();

    @Test
    void aCursorFindsWhatKafkasReaderFinds() {
        int records = 0;
        for (int round = 0; round < ROUNDS; round++) {
            RecordBatch batch = batch(codec(), records());
            long from = batch.baseOffset() + random.nextInt(4);
            List<Seen> expected = kafkas(batch, from);
            assertEquals(expected, read(bytesOf(batch), from));
            records += expected.size();
        }
        assertTrue(records > 3 * ROUNDS, "only " + records + " records");
    }

    /**
     * Clients of librdkafka write snappy without the header of Java's library, whose stream then
     * reads all of it at once.
     */
    @Test
    void aNewCursorReadsSnappyAsLibrdkafkaWritesIt() throws IOException {
        List<SimpleRecord> records = List.of(new SimpleRecord(1L, new byte[] {1}, new byte[100]));
        RecordBatch plain = batch(Compression.NONE, records);
        ByteBuffer bytes = bytesOf(plain);
        byte[] body = new byte[bytes.limit() - BatchFormat.RECORDS_AT];
        bytes.duplicate().position(BatchFormat.RECORDS_AT).get(body);
        byte[] packed = Snappy.compress(body);
        ByteBuffer snappy = ByteBuffer.allocate(BatchFormat.RECORDS_AT + packed.length);
        snappy.put(bytes.duplicate().limit(BatchFormat.RECORDS_AT)).put(packed).flip();
        short attributes = snappy.getShort(BatchFormat.ATTRIBUTES_AT);
        snappy.putShort(
            BatchFormat.ATTRIBUTES_AT, (short) (attributes | CompressionType.SNAPPY.id));

        BatchCursor fresh = new BatchCursor();
        assertTimeoutPreemptively(DEADLINE, () -> fresh.open(snappy, 0));
        assertTrue(fresh.next());
        assertEquals(plain.baseOffset(), fresh.offset);
        assertFalse(fresh.next());
    }

    @Test
    void whatIsAppendedFromACursorIsTheSameRecordWithItsOriginBehindItsHeaders() {
        for (int round = 0; round < ROUNDS; round++) {
            RecordBatch batch = batch(codec(), records());
            boolean inOne = random.nextBoolean();
            Origin all = new Origin(Specs.origin(), "eü");
            OriginBytes origin = all.bytes("orders", 12, inOne);
            Origin.Tag tag = all.tag("orders", 12, inOne);
            BatchBuilder builder = new BatchBuilder(new BatchBuilder.Spares());
            List<Seen> expected = new ArrayList<>();
            long at = 0;
            for (Record each : batch) {
                RecordHeaders headers = new RecordHeaders(each.headers());
                tag.append(headers, each.offset(), each.timestamp());
                expected.add(new Seen(at++, each.timestamp(), key(each), value(each), headers));
            }
            cursor.open(bytesOf(batch), 0);
            while (cursor.next()) {
                origin.encode(cursor.offset, cursor.timestamp);
                builder.append(cursor, cursor.timestamp, origin);
            }
            if (expected.isEmpty()) {
                assertTrue(builder.isEmpty());
                continue;
            }
            assertEquals(expected, written(builder, expected.size()));
        }
    }

    @Test
    void whatIsAppendedAsObjectsIsReadBackAndABuilderIsUsedAgain() {
        BatchBuilder builder = new BatchBuilder(new BatchBuilder.Spares());
        for (int round = 0; round < ROUNDS; round++) {
            List<SimpleRecord> records = records();
            List<Seen> expected = new ArrayList<>();
            for (SimpleRecord each : records) {
                byte[] key = Utils.toNullableArray(each.key());
                byte[] value = Utils.toNullableArray(each.value());
                Headers headers = new RecordHeaders(each.headers());
                builder.append(each.timestamp(), key, value, headers);
                expected.add(new Seen(expected.size(), each.timestamp(), key, value, headers));
            }
            assertEquals(expected, written(builder, expected.size()));
            assertTrue(builder.isEmpty());
        }
    }

    /** Damage that a checksum would not show, as when a broken client has computed it. */
    @Test
    void aDamagedBatchIsRefusedOrReadAsKafkasReaderDoes() {
        int refused = 0;
        for (int round = 0; round < 4 * ROUNDS; round++) {
            ByteBuffer bytes = bytesOf(batch(Compression.NONE, records()));
            int at = BatchFormat.RECORDS_AT
                + random.nextInt(
                    Math.max(1, Math.min(200, bytes.limit() - BatchFormat.RECORDS_AT)));
            if (at >= bytes.limit()) {
                continue;
            }
            bytes.put(at, (byte) random.nextInt());
            RecordBatch batch =
                MemoryRecords.readableRecords(bytes.duplicate()).batches().iterator().next();
            List<Seen> expected = null;
            try {
                expected = kafkas(batch, 0);
            } catch (KafkaException | IllegalArgumentException damaged) {
                refused++;
            }
            if (expected == null) {
                assertThrows(KafkaException.class, () -> read(bytes, 0));
            } else {
                assertEquals(expected, read(bytes, 0));
            }
        }
        assertTrue(refused > ROUNDS / 4, "only " + refused + " refused");
    }

    @Test
    void aBatchThatIsCutOffOrHasTooManyRecordsIsRefused() {
        ByteBuffer bytes =
            bytesOf(batch(Compression.NONE, List.of(new SimpleRecord(5, utf8("k"), null))));
        bytes.putInt(BatchFormat.COUNT_AT, 2);
        assertThrows(InvalidRecordException.class, () -> read(bytes, 0));
        bytes.putInt(BatchFormat.COUNT_AT, -1);
        assertThrows(InvalidRecordException.class, () -> read(bytes, 0));
        bytes.putInt(BatchFormat.COUNT_AT, 0);
        assertEquals(List.of(), read(bytes, 0));
    }

    @Test
    void aHeaderIsFoundByItsName() {
        Header[] headers = {new RecordHeader("a", null), new RecordHeader("origin", new byte[3])};
        ByteBuffer bytes = bytesOf(
            batch(Compression.NONE, List.of(new SimpleRecord(5, utf8("k"), null, headers))));
        cursor.open(bytes, 0);
        assertTrue(cursor.next());
        assertTrue(cursor.hasHeader(new byte[][] {utf8("x"), utf8("origin")}));
        assertFalse(cursor.hasHeader(new byte[][] {utf8("origi"), utf8("originx")}));
        assertFalse(cursor.hasHeader(new byte[0][]));
        assertFalse(cursor.next());
    }

    @Test
    void whatDoesNotBecomeSmallerIsNotCompressed() {
        byte[] noise = new byte[500];
        random.nextBytes(noise);
        BatchBuilder builder = new BatchBuilder(new BatchBuilder.Spares());
        builder.append(1, null, noise, new RecordHeaders());
        int size = builder.size();
        BatchBuilder.Batch made = finish(builder, CompressionType.LZ4);
        assertEquals(size, made.bytes().remaining());
        assertEquals(CompressionType.NONE, only(made.bytes()).compressionType());
    }

    @Test
    void aSampleTellsABatchThatHoldsSomethingElse() {
        BatchBuilder builder = new BatchBuilder(new BatchBuilder.Spares());
        BatchSample same = new BatchSample();
        BatchSample another = new BatchSample();
        builder.append(1, utf8("k"), utf8("v"), new RecordHeaders());
        same.add(1, utf8("k"), utf8("v"), new RecordHeaders());
        another.add(1, utf8("k"), utf8("w"), new RecordHeaders());
        List<BatchBuilder.Batch> written = builder.finish(packer(CompressionType.NONE), 1000);
        same.check(written);
        assertThrows(IllegalStateException.class, () -> another.check(written));
        assertThrows(IllegalStateException.class, () -> new BatchSample().check(written));
        for (int round = 0; round < ROUNDS; round++) {
            BatchSample.checkCursor(bytesOf(batch(codec(), records())));
        }
    }

    @Test
    void theOldestTimestampOfABatchIsKept() {
        BatchBuilder builder = new BatchBuilder(new BatchBuilder.Spares());
        for (long timestamp : new long[] {7, 3, 9}) {
            builder.append(timestamp, null, null, new RecordHeaders());
        }
        BatchBuilder.Batch made = finish(builder, CompressionType.NONE);
        assertEquals(3, made.oldest());
        assertEquals(3, made.count());
        assertEquals(9, only(made.bytes()).maxTimestamp());
    }

    /** All that there is of a record; two are equal when all of it is. */
    private record Seen(long offset, long timestamp, String key, String value, String headers) {
        private Seen(long offset, long timestamp, byte[] key, byte[] value, Headers headers) {
            this(
                offset,
                timestamp,
                Arrays.toString(key),
                Arrays.toString(value),
                Arrays.toString(headers.toArray()));
        }
    }

    private static List<Seen> kafkas(RecordBatch batch, long from) {
        List<Seen> found = new ArrayList<>();
        for (Record each : batch) {
            if (each.offset() >= from) {
                Headers headers = new RecordHeaders(each.headers());
                for (Header header : headers) {
                    header.key();
                }
                found.add(
                    new Seen(each.offset(), each.timestamp(), key(each), value(each), headers));
            }
        }
        return found;
    }

    private List<Seen> read(ByteBuffer bytes, long from) {
        List<Seen> found = new ArrayList<>();
        cursor.open(bytes, from);
        while (cursor.next()) {
            found.add(new Seen(
                cursor.offset, cursor.timestamp, cursor.key(), cursor.value(), cursor.headers()));
        }
        return found;
    }

    /** What Kafka's reader finds in what was written, after the sender has written its part. */
    private List<Seen> written(BatchBuilder builder, int count) {
        BatchBuilder.Batch made = finish(builder, CODECS[random.nextInt(CODECS.length)]);
        ByteBuffer bytes = made.bytes();
        assertEquals(count, made.count());
        bytes.putInt(BatchFormat.CHECKSUM_AT, (int) checksum(bytes));
        RecordBatch batch = only(bytes);
        batch.ensureValid();
        assertEquals(TimestampType.CREATE_TIME, batch.timestampType());
        assertEquals(Optional.of(count), Optional.of(batch.countOrNull()));
        assertEquals(count - 1, batch.lastOffset());
        return kafkas(batch, 0);
    }

    private BatchBuilder.Batch finish(BatchBuilder builder, CompressionType type) {
        List<BatchBuilder.Batch> made = builder.finish(packer(type), Integer.MAX_VALUE);
        assertEquals(1, made.size());
        return made.get(0);
    }

    /** One for all batches of a codec, as a task has it. */
    private BatchPacker packer(CompressionType type) {
        return packers.computeIfAbsent(
            type,
            it -> new BatchPacker(Map.of("compression.type", it.name, "batch.size", "131072")));
    }

    private static long checksum(ByteBuffer bytes) {
        java.util.zip.CRC32C sum = new java.util.zip.CRC32C();
        sum.update(bytes.duplicate().position(BatchFormat.CHECKED_FROM));
        return sum.getValue();
    }

    private static RecordBatch only(ByteBuffer bytes) {
        List<RecordBatch> found = new ArrayList<>();
        MemoryRecords.readableRecords(bytes.duplicate()).batches().forEach(found::add);
        assertEquals(1, found.size());
        return found.get(0);
    }

    private Compression codec() {
        return Compression.of(CODECS[random.nextInt(CODECS.length)]).build();
    }

    /** A batch as a broker has it: with holes between its offsets, of either kind of timestamp. */
    private RecordBatch batch(Compression compression, List<SimpleRecord> records) {
        boolean isAppendTime = random.nextInt(4) == 0;
        long base = random.nextInt(3) == 0 ? (1L << 40) : random.nextInt(100);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            new ByteBufferOutputStream(1024),
            RecordBatch.MAGIC_VALUE_V2,
            compression,
            isAppendTime ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
            base,
            isAppendTime ? 1_700_000_000_000L : RecordBatch.NO_TIMESTAMP,
            random.nextInt(5),
            (short) 1,
            3,
            random.nextBoolean(),
            false,
            random.nextInt(3),
            1 << 20);
        long offset = base;
        for (SimpleRecord each : records) {
            builder.appendWithOffset(
                offset, each.timestamp(), each.key(), each.value(), each.headers());
            offset += random.nextInt(4) == 0 ? 1 + random.nextInt(300) : 1;
        }
        return only(builder.build().buffer());
    }

    private static ByteBuffer bytesOf(RecordBatch batch) {
        // Not at the start of its array, as in the answer to a fetch.
        ByteBuffer bytes = ByteBuffer.allocate(batch.sizeInBytes() + 5).position(5).slice();
        batch.writeTo(bytes);
        return bytes.flip();
    }

    private List<SimpleRecord> records() {
        List<SimpleRecord> found = new ArrayList<>();
        long now = random.nextInt(3) == 0 ? Long.MAX_VALUE : 1_700_000_000_000L;
        for (int left = 1 + random.nextInt(12); left > 0; left--) {
            long timestamp = random.nextInt(6) == 0 ? -1 : now - random.nextInt(1000);
            Header[] headers = new Header[random.nextInt(4)];
            for (int i = 0; i < headers.length; i++) {
                headers[i] = new RecordHeader("h\u00fc" + random.nextInt(3), bytes(70));
            }
            found.add(new SimpleRecord(timestamp, bytes(100), bytes(20_000), headers));
        }
        return found;
    }

    private byte[] bytes(int most) {
        if (random.nextInt(5) == 0) {
            return null;
        }
        int length =
            random.nextBoolean() ? random.nextInt(40) : LENGTHS[random.nextInt(LENGTHS.length)];
        byte[] made = new byte[Math.min(length, most)];
        if (random.nextBoolean()) {
            random.nextBytes(made);
        }
        return made;
    }

    private static byte[] key(Record of) {
        return Utils.toNullableArray(of.key());
    }

    private static byte[] value(Record of) {
        return Utils.toNullableArray(of.value());
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
