package aggregator.connector;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Optional;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.unsafe.Platform;

/**
 * What the header of a fetched batch (format 2) says, and whether it can be copied as it is. Pure.
 *
 * <p>`bytes` is the whole batch; `first` and `last` are offsets.
 */
record BatchHead(ByteBuffer bytes, long first, long last, int count, long newest) {
    private static final int COMPRESSION_BITS = 7;

    static BatchHead of(ByteBuffer batch) {
        int at = batch.position();
        long first = batch.getLong(at);
        return new BatchHead(
            batch,
            first,
            first + batch.getInt(at + BatchFormat.LAST_DELTA_AT),
            batch.getInt(at + BatchFormat.COUNT_AT),
            batch.getLong(at + BatchFormat.MAX_TIMESTAMP_AT));
    }

    Optional<Integer> leaderEpoch() {
        int epoch = bytes.getInt(bytes.position() + BatchFormat.LEADER_EPOCH_AT);
        return epoch < 0 ? Optional.empty() : Optional.of(epoch);
    }

    /** The producer id, which names a source partition where the batch was copied as it is. */
    long producerId() {
        return bytes.getLong(bytes.position() + BatchFormat.PRODUCER_ID_AT);
    }

    /** The offset that its first record had at the source, where it was copied as it is. */
    long origin() {
        int at = bytes.position();
        return PassedOrigin.offset(
            bytes.getShort(at + BatchFormat.PRODUCER_EPOCH_AT),
            bytes.getInt(at + BatchFormat.SEQUENCE_AT));
    }

    /**
     * Whether its first record has a header with one of these names. Only as much is unpacked as
     * that takes. True where it cannot be read.
     */
    boolean firstHasHeader(byte[][] names, BufferSupplier buffers) {
        RecordBatch batch = MemoryRecords.readableRecords(bytes.duplicate()).firstBatch();
        try (CloseableIterator<Record> records = batch.streamingIterator(buffers)) {
            for (Header each : records.next().headers()) {
                byte[] own = each.key().getBytes(StandardCharsets.UTF_8);
                if (Arrays.stream(names).anyMatch(name -> Arrays.equals(name, own))) {
                    return true;
                }
            }
            return false;
        } catch (RuntimeException damaged) {
            // Read record by record, it says what is wrong.
            return true;
        }
    }

    int size() {
        return bytes.remaining();
    }

    /**
     * A hash of all that a reader of its records gets of it, but for the offsets: of what stays as
     * it is when it is copied as it is.
     */
    long contentHash() {
        int at = bytes.arrayOffset() + bytes.position();
        long head = hash(at + BatchFormat.ATTRIBUTES_AT, at + BatchFormat.PRODUCER_ID_AT, 0);
        return hash(at + BatchFormat.COUNT_AT, at + bytes.remaining(), head);
    }

    private long hash(int from, int to, long seed) {
        return XXH64.hashUnsafeBytes(
            bytes.array(), Platform.BYTE_ARRAY_OFFSET + from, to - from, seed);
    }

    /**
     * Whether a hub's broker takes it as it is, and its records stay what they are: it has a record
     * for each offset, with a timestamp of its producer, and is of no transaction.
     */
    boolean isPlain() {
        int at = bytes.position();
        boolean isNow = bytes.get(at + BatchFormat.MAGIC_AT) == RecordBatch.MAGIC_VALUE_V2;
        int attributes = bytes.getShort(at + BatchFormat.ATTRIBUTES_AT);
        boolean hasTimes = bytes.getLong(at + BatchFormat.BASE_TIMESTAMP_AT) >= 0 && newest >= 0;
        return isNow && (attributes & ~COMPRESSION_BITS) == 0 && hasTimes && count > 0
            && last - first + 1 == count;
    }
}
