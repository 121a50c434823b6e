package aggregator.connector;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.ByteUtils;

/**
 * Writes records for one hub partition into a batch of format 2 (KIP-98), as bytes.
 *
 * <p>The producer's sender writes the rest: its id, epoch, sequence, and the checksum.
 * Used by one thread.
 */
final class BatchBuilder {
    /** A whole batch; no other object has its `bytes`. `oldest` is its lowest timestamp. */
    record Batch(ByteBuffer bytes, int count, long oldest) {}

    private static final int FIRST_BYTES = 4096;
    /** Lengths, deltas and the number of headers take no more than this. */
    static final int RECORD_OVERHEAD = 64;
    private static final byte[] NOTHING = {};

    /** Arrays that builders of a task have no use for at present. */
    static final class Spares {
        private static final int MOST = 8;
        private final ArrayDeque<byte[]> arrays = new ArrayDeque<>();

        private byte[] take(int least) {
            byte[] found = arrays.poll();
            return found == null || found.length < least ? new byte[least] : found;
        }

        private void give(byte[] array) {
            if (arrays.size() < MOST) {
                arrays.push(array);
            }
        }
    }

    private final Spares spares;
    /** How large the batch before was. */
    private int usual = FIRST_BYTES;

    private byte[] bytes = NOTHING;
    private int size = BatchFormat.RECORDS_AT;
    private int count;
    private long base;
    private long newest;
    private long oldest;

    BatchBuilder(Spares spares) {
        this.spares = spares;
    }

    boolean isEmpty() {
        return count == 0;
    }

    /** How large the batch is without compression. */
    int size() {
        return size;
    }

    /**
     * Appends the record that a cursor is at, as it is, with these headers
     * behind its own.
     */
    void append(BatchCursor from, long timestamp, OriginBytes more) {
        long delta = begin(timestamp);
        int content = from.contentEnd - from.keyLengthAt;
        int own = from.end - from.headersAt;
        int body = 1 + ByteUtils.sizeOfVarlong(delta) + ByteUtils.sizeOfVarint(count) + content
            + ByteUtils.sizeOfVarint(from.headers + more.count) + own + more.size();
        room(RECORD_OVERHEAD + body);
        head(body, delta);
        put(from.bytes, from.keyLengthAt, content);
        putInt(from.headers + more.count);
        put(from.bytes, from.headersAt, own);
        put(more.bytes(), 0, more.size());
        count++;
    }

    /** Appends a record whose parts are objects. */
    void append(long timestamp, byte[] key, byte[] value, Headers headers) {
        long delta = begin(timestamp);
        Header[] all = headers.toArray();
        byte[][] names = new byte[all.length][];
        int body = 1 + ByteUtils.sizeOfVarlong(delta) + ByteUtils.sizeOfVarint(count)
            + Varints.sizeOf(key) + Varints.sizeOf(value) + ByteUtils.sizeOfVarint(all.length);
        for (int i = 0; i < all.length; i++) {
            names[i] = all[i].key().getBytes(StandardCharsets.UTF_8);
            body += Varints.sizeOf(names[i]) + Varints.sizeOf(all[i].value());
        }
        room(RECORD_OVERHEAD + body);
        head(body, delta);
        putField(key);
        putField(value);
        putInt(all.length);
        for (int i = 0; i < all.length; i++) {
            putField(names[i]);
            putField(all[i].value());
        }
        count++;
    }

    /** The batch of all that was appended. The builder begins the next one. */
    Batch finish(Compression compression) {
        ByteBuffer made = null;
        if (compression.type() != CompressionType.NONE) {
            made = packed(compression);
        }
        CompressionType type = CompressionType.NONE;
        // What does not become smaller goes as it is, and stays within the limits of its topic.
        if (made != null && made.remaining() < size) {
            type = compression.type();
            spares.give(bytes);
        } else {
            made = ByteBuffer.wrap(bytes, 0, size).slice();
        }
        bytes = NOTHING;
        usual = size + size / 8;
        made.putLong(0, 0);
        made.putInt(BatchFormat.LENGTH_AT, made.remaining() - BatchFormat.LENGTH_OVERHEAD);
        made.put(BatchFormat.MAGIC_AT, RecordBatch.MAGIC_VALUE_V2);
        made.putShort(BatchFormat.ATTRIBUTES_AT, type.id);
        made.putInt(BatchFormat.LAST_DELTA_AT, count - 1);
        made.putLong(BatchFormat.BASE_TIMESTAMP_AT, base);
        made.putLong(BatchFormat.MAX_TIMESTAMP_AT, newest);
        made.putInt(BatchFormat.COUNT_AT, count);
        Batch batch = new Batch(made, count, oldest);
        size = BatchFormat.RECORDS_AT;
        count = 0;
        return batch;
    }

    private ByteBuffer packed(Compression compression) {
        ByteBufferOutputStream into = new ByteBufferOutputStream(BatchFormat.RECORDS_AT + size / 2);
        into.position(BatchFormat.RECORDS_AT);
        try (OutputStream stream = compression.wrapForOutput(into, RecordBatch.MAGIC_VALUE_V2)) {
            stream.write(bytes, BatchFormat.RECORDS_AT, size - BatchFormat.RECORDS_AT);
        } catch (IOException impossible) {
            throw new UncheckedIOException(impossible);
        }
        return into.buffer().flip().slice();
    }

    /** A record's timestamp less that of the first one. */
    private long begin(long timestamp) {
        if (count == 0) {
            base = timestamp;
            newest = timestamp;
            oldest = timestamp;
        } else {
            newest = Math.max(newest, timestamp);
            oldest = Math.min(oldest, timestamp);
        }
        return timestamp - base;
    }

    private void head(int body, long delta) {
        putInt(body);
        bytes[size++] = 0;
        putLong(delta);
        putInt(count);
    }

    private void room(int more) {
        if (bytes.length - size < more) {
            int least = Math.max(bytes.length == 0 ? usual : 2 * bytes.length, size + more);
            byte[] larger = spares.take(least);
            System.arraycopy(bytes, 0, larger, 0, bytes.length);
            bytes = larger;
        }
    }

    private void put(byte[] from, int at, int length) {
        System.arraycopy(from, at, bytes, size, length);
        size += length;
    }

    private void putField(byte[] field) {
        size = Varints.put(bytes, size, field);
    }

    private void putInt(int number) {
        size = Varints.put(bytes, size, number);
    }

    private void putLong(long number) {
        size = Varints.put(bytes, size, number);
    }
}
