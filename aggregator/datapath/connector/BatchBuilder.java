package aggregator.connector;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.ByteUtils;

/**
 * Writes records for one hub partition into a batch of format 2 (KIP-98), as bytes.
 *
 * <p>The producer's sender writes the rest: its id, epoch, sequence, and the checksum.
 * Used by one thread.
 */
final class BatchBuilder {
    /**
     * A whole batch; no other object has its `bytes`. `oldest` is its lowest timestamp, `gathered`
     * its size before it was compressed.
     */
    record Batch(ByteBuffer bytes, int count, long oldest, int gathered) {}

    private static final int FIRST_BYTES = 4096;
    /** The next batch may be a small one. */
    private static final int MOST_FIRST_BYTES = 150_000;
    /** Lengths, deltas and the number of headers take no more than this. */
    static final int RECORD_OVERHEAD = 64;
    private static final byte[] NOTHING = {};
    /** Parts of a batch may compress a little worse than the whole. */
    private static final double SPLIT_MARGIN = 0.95;

    /** Arrays that builders of a task have no use for at present. */
    static final class Spares {
        private static final int MOST_BYTES = 2_000_000;
        private final ArrayDeque<byte[]> arrays = new ArrayDeque<>();
        private int bytes;

        private byte[] take(int least) {
            byte[] found = arrays.poll();
            bytes -= found == null ? 0 : found.length;
            return found == null || found.length < least ? new byte[least] : found;
        }

        private void give(byte[] array) {
            if (bytes + array.length <= MOST_BYTES) {
                arrays.push(array);
                bytes += array.length;
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
        append(from, timestamp, more.count, more.bytes(), more.size());
    }

    private void append(
        BatchCursor from, long timestamp, int moreHeaders, byte[] more, int moreBytes) {
        long delta = begin(timestamp);
        int content = from.contentEnd - from.keyLengthAt;
        int own = from.end - from.headersAt;
        int headers = from.headers + moreHeaders;
        int body = 1 + ByteUtils.sizeOfVarlong(delta) + ByteUtils.sizeOfVarint(count) + content
            + ByteUtils.sizeOfVarint(headers) + own + moreBytes;
        room(RECORD_OVERHEAD + body);
        head(body, delta);
        put(from.bytes, from.keyLengthAt, content);
        putInt(headers);
        if (own > 0) {
            put(from.bytes, from.headersAt, own);
        }
        put(more, 0, moreBytes);
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

    /**
     * All that was appended, in batches of at most `most` bytes or of one record: usually in one.
     * The builder begins the next one.
     */
    List<Batch> finish(BatchPacker packer, int most) {
        int packed = packer.pack(bytes, size);
        // What does not become smaller goes as it is, and stays within the limits of its topic.
        boolean isSmaller = packed < size;
        int least = Math.min(size, packed);
        List<Batch> all;
        if (count > 1 && least > most) {
            int part = (int) (SPLIT_MARGIN * size * most / least);
            all = split(packer, most, part);
        } else if (isSmaller) {
            byte[] made = packer.packed();
            putHeader(made, packed, packer.type());
            all = List.of(new Batch(packer.own(made, packed), count, oldest, size));
        } else {
            putHeader(bytes, size, CompressionType.NONE);
            all = List.of(new Batch(packer.own(bytes, size), count, oldest, size));
        }
        spares.give(bytes);
        bytes = NOTHING;
        usual = Math.min(size + size / 8, MOST_FIRST_BYTES);
        size = BatchFormat.RECORDS_AT;
        count = 0;
        return all;
    }

    /** The same records in more batches, each of at most `part` bytes before it is compressed. */
    private List<Batch> split(BatchPacker packer, int most, int part) {
        putHeader(bytes, size, CompressionType.NONE);
        List<Batch> all = new ArrayList<>();
        BatchBuilder next = new BatchBuilder(spares);
        BatchCursor cursor = new BatchCursor();
        cursor.open(ByteBuffer.wrap(bytes, 0, size), 0);
        while (cursor.next()) {
            int more = RECORD_OVERHEAD + cursor.end - cursor.keyLengthAt;
            // Not below `most`: so large a batch needs no compression to be small enough.
            if (!next.isEmpty() && next.size + more > Math.max(most, part)) {
                all.addAll(next.finish(packer, most));
            }
            next.append(cursor, cursor.timestamp, 0, NOTHING, 0);
        }
        all.addAll(next.finish(packer, most));
        return all;
    }

    private void putHeader(byte[] into, int length, CompressionType type) {
        ByteBuffer made = ByteBuffer.wrap(into);
        made.putLong(0, 0);
        made.putInt(BatchFormat.LENGTH_AT, length - BatchFormat.LENGTH_OVERHEAD);
        made.put(BatchFormat.MAGIC_AT, RecordBatch.MAGIC_VALUE_V2);
        made.putShort(BatchFormat.ATTRIBUTES_AT, type.id);
        made.putInt(BatchFormat.LAST_DELTA_AT, count - 1);
        made.putLong(BatchFormat.BASE_TIMESTAMP_AT, base);
        made.putLong(BatchFormat.MAX_TIMESTAMP_AT, newest);
        made.putInt(BatchFormat.COUNT_AT, count);
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
