package aggregator.connector;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Optional;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;

/**
 * Moves through the records of a fetched batch (format 2, KIP-98) without making objects of them:
 * its fields say where in {@link #bytes} the parts of the current record are.
 *
 * <p>KafkaException for what is no such batch. What a checksum does not cover is checked here as
 * Kafka's own reader does: lengths, counts, and that nothing is left over. Used by one thread; the
 * places are valid until the next call.
 */
final class BatchCursor {
    private static final int COMPRESSION_BITS = 7;
    private static final int LOG_APPEND_BIT = 8;
    /** More than 0: it grows by doubling. */
    private static final int FIRST_BYTES = 1024;
    /** The longest that a number of 32 and of 64 bits takes, in steps of 7 bits. */
    private static final int INT_SHIFT = 28;
    private static final int LONG_SHIFT = 63;

    private final BufferSupplier buffers = BufferSupplier.create();
    private byte[] unpacked = new byte[FIRST_BYTES];

    /** Where the parts of the current batch's records are. */
    byte[] bytes = unpacked;
    long offset;
    long timestamp;
    TimestampType timestampType = TimestampType.CREATE_TIME;
    Optional<Integer> leaderEpoch = Optional.empty();
    /** The length before the key, and the key; a length is below 0 for null. */
    int keyLengthAt;
    int keyAt;
    int keyLength;
    int valueAt;
    int valueLength;
    /** Behind key and value. */
    int contentEnd;
    /** Behind their number. */
    int headersAt;
    int headers;
    /** Behind the record. */
    int end;

    /** Of the current batch: the offset that it begins with, and the state of its producer. */
    long baseOffset;
    long producerId;
    short producerEpoch;
    int sequence;

    private int at;
    private int limit;
    private int left;
    private long from;
    private long baseTimestamp;
    private long appendTime;

    /** Begins with a batch, of which the records below an offset are left out. */
    void open(ByteBuffer batch, long fromOffset) {
        int start = batch.position();
        from = fromOffset;
        baseOffset = batch.getLong(start);
        int leader = batch.getInt(start + BatchFormat.LEADER_EPOCH_AT);
        leaderEpoch = leader < 0 ? Optional.empty() : Optional.of(leader);
        int attributes = batch.getShort(start + BatchFormat.ATTRIBUTES_AT);
        timestampType = (attributes & LOG_APPEND_BIT) == 0 ? TimestampType.CREATE_TIME
                                                           : TimestampType.LOG_APPEND_TIME;
        baseTimestamp = batch.getLong(start + BatchFormat.BASE_TIMESTAMP_AT);
        appendTime = batch.getLong(start + BatchFormat.MAX_TIMESTAMP_AT);
        producerId = batch.getLong(start + BatchFormat.PRODUCER_ID_AT);
        producerEpoch = batch.getShort(start + BatchFormat.PRODUCER_EPOCH_AT);
        sequence = batch.getInt(start + BatchFormat.SEQUENCE_AT);
        left = batch.getInt(start + BatchFormat.COUNT_AT);
        if (left < 0) {
            throw new InvalidRecordException("Found invalid record count " + left);
        }
        CompressionType type = CompressionType.forId(attributes & COMPRESSION_BITS);
        if (left == 0) {
            // Compaction keeps such batches for the numbers of their producer.
            at = 0;
            limit = 0;
        } else if (type == CompressionType.NONE) {
            bytes = batch.array();
            at = batch.arrayOffset() + start + BatchFormat.RECORDS_AT;
            limit = batch.arrayOffset() + batch.limit();
        } else {
            unpack(batch.duplicate().position(start + BatchFormat.RECORDS_AT).slice(), type);
        }
    }

    /** Nothing is left of the batch. */
    void clear() {
        left = 0;
        at = 0;
        limit = 0;
        bytes = unpacked;
    }

    /** Moves to the next record; false when there is none. */
    boolean next() {
        while (left > 0) {
            try {
                read();
            } catch (IndexOutOfBoundsException cutOff) {
                throw new InvalidRecordException(
                    "Incorrect declared batch size, premature EOF reached", cutOff);
            }
            left--;
            if (left == 0 && at != limit) {
                throw new InvalidRecordException(
                    "Incorrect declared batch size, records still remaining in file");
            }
            if (offset >= from) {
                return true;
            }
        }
        return false;
    }

    private void read() {
        int length = readInt();
        int start = at;
        end = start + length;
        if (length < 0 || end > limit || end < start) {
            throw new InvalidRecordException("Found invalid record of " + length + " bytes");
        }
        at++;
        long delta = readLong();
        timestamp =
            timestampType == TimestampType.LOG_APPEND_TIME ? appendTime : baseTimestamp + delta;
        offset = baseOffset + readInt();
        keyLengthAt = at;
        keyLength = readInt();
        keyAt = at;
        pass(keyLength);
        valueLength = readInt();
        valueAt = at;
        pass(valueLength);
        contentEnd = at;
        headers = readInt();
        headersAt = at;
        if (headers < 0) {
            throw new InvalidRecordException("Found invalid number of record headers " + headers);
        }
        for (int i = 0; i < headers; i++) {
            passHeader();
        }
        if (at != end) {
            throw new InvalidRecordException(
                "Invalid record size: expected to read " + length
                + " bytes in record payload, but instead read " + (at - start));
        }
    }

    private void passHeader() {
        int name = readInt();
        if (name < 0) {
            throw new InvalidRecordException("Invalid negative header key size " + name);
        }
        pass(name);
        pass(readInt());
    }

    private void pass(int length) {
        if (length > end - at) {
            throw new InvalidRecordException(
                "Invalid record size: a field of " + length + " bytes is behind its end");
        }
        at += Math.max(0, length);
    }

    /** The key, as an array of its own; null where it is none. */
    byte[] key() {
        return copy(keyAt, keyLength);
    }

    byte[] value() {
        return copy(valueAt, valueLength);
    }

    RecordHeaders headers() {
        RecordHeaders made = new RecordHeaders();
        int behind = at;
        at = headersAt;
        for (int i = 0; i < headers; i++) {
            int name = readInt();
            String key = new String(bytes, at, name, StandardCharsets.UTF_8);
            at += name;
            int length = readInt();
            made.add(key, copy(at, length));
            at += Math.max(0, length);
        }
        at = behind;
        return made;
    }

    /** Whether one of its headers has one of these names. */
    boolean hasHeader(byte[][] names) {
        int behind = at;
        at = headersAt;
        boolean found = false;
        for (int i = 0; i < headers && !found; i++) {
            int length = readInt();
            for (byte[] name : names) {
                found |=
                    length == name.length && Arrays.equals(bytes, at, at + length, name, 0, length);
            }
            at += length;
            int value = readInt();
            at += Math.max(0, value);
        }
        at = behind;
        return found;
    }

    private byte[] copy(int start, int length) {
        return length < 0 ? null : Arrays.copyOfRange(bytes, start, start + length);
    }

    private int readInt() {
        int value = 0;
        int shift = 0;
        while (true) {
            byte each = bytes[at++];
            value |= (each & 0x7f) << shift;
            if (each >= 0) {
                return (value >>> 1) ^ -(value & 1);
            }
            shift += 7;
            if (shift > INT_SHIFT) {
                throw new InvalidRecordException("Varint is too long");
            }
        }
    }

    private long readLong() {
        long value = 0;
        int shift = 0;
        while (true) {
            byte each = bytes[at++];
            value |= (each & 0x7fL) << shift;
            if (each >= 0) {
                return (value >>> 1) ^ -(value & 1);
            }
            shift += 7;
            if (shift > LONG_SHIFT) {
                throw new InvalidRecordException("Varlong is too long");
            }
        }
    }

    private void unpack(ByteBuffer packed, CompressionType type) {
        int size = 0;
        // Before the stream is made: that of snappy reads what librdkafka wrote at once.
        if (unpacked.length < packed.remaining()) {
            unpacked = new byte[2 * packed.remaining()];
        }
        try (
            InputStream stream = Compression.of(type).build().wrapForInput(
                packed, RecordBatch.MAGIC_VALUE_V2, buffers)) {
            while (true) {
                int read = stream.read(unpacked, size, unpacked.length - size);
                if (read < 0) {
                    break;
                }
                size += read;
                if (size == unpacked.length) {
                    unpacked = Arrays.copyOf(unpacked, 2 * size);
                }
            }
        } catch (IOException damaged) {
            throw new KafkaException("Failed to decompress record stream", damaged);
        }
        bytes = unpacked;
        at = 0;
        limit = size;
    }
}
