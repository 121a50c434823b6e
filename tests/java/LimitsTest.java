package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.Test;

class LimitsTest {
    private static final long NOW = 1_700_000_000_000L;
    /** Where a varint takes a byte more is in between. */
    private static final int[] LENGTHS = {0, 1, 62, 63, 64, 65, 127, 128, 8190, 8191, 8192, 8193};
    private static final byte[] KEY = {1};
    private static final byte[] VALUE = new byte[100];

    private final ByteBuffer buffer = ByteBuffer.allocate(1 << 21);

    @Test
    void aBatchHasTheSizeThatKafkaGivesItForKeysAndValuesOfAnyLength() {
        for (byte[] key : contents()) {
            for (byte[] value : contents()) {
                assertSize(key, value, new RecordHeaders());
                assertSize(key, value, headers(1, "a", 1));
            }
        }
    }

    @Test
    void aBatchHasTheSizeThatKafkaGivesItForHeadersOfAnyLengthAndNumber() {
        for (int number : new int[] {0, 1, 2, 63, 64, 65}) {
            for (int length : LENGTHS) {
                assertSize(KEY, VALUE, headers(number, "n".repeat(length), 3));
                assertSize(KEY, null, headers(number, "name", length));
            }
            assertSize(null, VALUE, headers(number, "name", -1));
        }
    }

    @Test
    void aBatchHasTheSizeThatKafkaGivesItForHeaderNamesOfAnyScript() {
        // Of one to four bytes for each character, and with lengths around a bound in bytes.
        for (String letter : List.of("a", "é", "名", "🙂")) {
            for (int times : new int[] {1, 15, 16, 17, 21, 22, 31, 32, 33, 63, 64, 2048, 4096}) {
                assertSize(KEY, VALUE, headers(1, letter.repeat(times), 2));
                assertSize(null, null, headers(3, "x" + letter.repeat(times), -1));
            }
        }
    }

    @Test
    void aBatchHasTheSizeThatKafkaGivesItWhereTheWholeRecordTakesAByteMore() {
        for (int bound : new int[] {64, 8192, 1 << 20}) {
            for (int length = bound - 60; length < bound + 3; length++) {
                assertSize(null, new byte[length], new RecordHeaders());
                assertSize(KEY, new byte[length], headers(2, "é", 5));
            }
        }
    }

    @Test
    void aTimeIsComparedWithoutAnOverflow() {
        Limits limits =
            limits("{\"ahead_ms\": 9223372036854775806, \"behind_ms\": 9223372036854775806}");
        for (long timestamp : new long[] {-1, 0, NOW, NOW * 1_000_000, Long.MAX_VALUE}) {
            assertNull(limits.refusal(KEY, VALUE, new RecordHeaders(), timestamp, NOW));
        }
        Limits hour = limits("{\"ahead_ms\": 3600000}");
        assertEquals(
            Limits.TIMESTAMP, hour.refusal(KEY, VALUE, new RecordHeaders(), Long.MAX_VALUE, NOW));
    }

    @Test
    void nothingIsRefusedWhereNothingIsLimited() {
        Limits missing = Limits.of(Specs.json("{}").path("limits"));
        for (Limits limits : List.of(limits("{}"), missing)) {
            for (long timestamp : new long[] {-1, 0, NOW, Long.MAX_VALUE}) {
                assertNull(
                    limits.refusal(null, new byte[1 << 20], headers(9, "a", 9), timestamp, NOW));
            }
        }
    }

    @Test
    void aRecordWithoutAKeyIsRefusedWhereOneIsRequired() {
        Limits limits = limits("{'key_required': true}");
        assertEquals("no_key", refusal(limits, null, NOW));
        assertNull(refusal(limits, new byte[0], NOW));
        assertNull(limits.refusal(KEY, null, new RecordHeaders(), Long.MAX_VALUE, NOW));
        assertNull(refusal(limits("{'max_bytes': 1000}"), null, NOW));
    }

    @Test
    void aTimestampTooFarAheadIsRefused() {
        Limits limits = limits("{'ahead_ms': 1000}");
        assertNull(refusal(limits, KEY, NOW + 1000));
        assertEquals("timestamp", refusal(limits, KEY, NOW + 1001));
        assertNull(refusal(limits, KEY, 0));
        assertNull(refusal(limits, null, -1));
    }

    @Test
    void aTimestampTooFarBehindIsRefused() {
        Limits limits = limits("{'behind_ms': 1000}");
        assertNull(refusal(limits, KEY, NOW - 1000));
        assertEquals("timestamp", refusal(limits, KEY, NOW - 1001));
        assertEquals("timestamp", refusal(limits, KEY, 0));
        assertNull(refusal(limits, KEY, Long.MAX_VALUE));
    }

    @Test
    void aRecordWithoutATimestampIsNeverTooOld() {
        assertNull(refusal(limits("{'behind_ms': 1000}"), KEY, -1));
    }

    @Test
    void aRecordIsRefusedWhenItsBatchIsLargerThanTheLargestAndNotWhenItIsAsLarge() {
        Headers headers = headers(2, "é", 5);
        int size = kafka(KEY, VALUE, headers);
        assertNull(limits("{'max_bytes': " + size + "}").refusal(KEY, VALUE, headers, NOW, NOW));
        Limits less = limits("{'max_bytes': " + (size - 1) + "}");
        assertEquals("too_large", less.refusal(KEY, VALUE, headers, NOW, NOW));
        assertNull(less.refusal(KEY, null, headers, NOW, NOW));
    }

    @Test
    void ofSeveralReasonsTheFirstIsNamed() {
        Limits all =
            limits("{'max_bytes': 1, 'ahead_ms': 0, 'behind_ms': 0, 'key_required': true}");
        assertEquals("no_key", refusal(all, null, NOW + 1));
        assertEquals("timestamp", refusal(all, KEY, NOW + 1));
        assertEquals("timestamp", refusal(all, KEY, NOW - 1));
        assertEquals("too_large", refusal(all, KEY, NOW));
    }

    private static Limits limits(String json) {
        return Limits.of(Specs.json(json));
    }

    private static String refusal(Limits limits, byte[] key, long timestamp) {
        return limits.refusal(key, VALUE, new RecordHeaders(), timestamp, NOW);
    }

    /** Null, and one of each length. */
    private static List<byte[]> contents() {
        List<byte[]> found = new ArrayList<>();
        found.add(null);
        for (int length : LENGTHS) {
            found.add(new byte[length]);
        }
        return found;
    }

    /** This number of headers with values of this length, or null below 0. */
    private static Headers headers(int number, String name, int length) {
        RecordHeaders headers = new RecordHeaders();
        for (int i = 0; i < number; i++) {
            headers.add(new RecordHeader(name, length < 0 ? null : new byte[length]));
        }
        return headers;
    }

    private void assertSize(byte[] key, byte[] value, Headers headers) {
        String what = "key " + length(key) + ", value " + length(value) + ", headers "
            + headers.toArray().length;
        assertEquals(kafka(key, value, headers), Limits.batchBytes(key, value, headers), what);
    }

    private static int length(byte[] bytes) {
        return bytes == null ? -1 : bytes.length;
    }

    private int kafka(byte[] key, byte[] value, Headers headers) {
        Header[] all = headers.toArray();
        buffer.clear();
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            buffer, RecordBatch.MAGIC_VALUE_V2, Compression.NONE, TimestampType.CREATE_TIME, 0L);
        builder.append(NOW, key, value, all);
        return builder.build().sizeInBytes();
    }
}
