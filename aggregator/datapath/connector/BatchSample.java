package aggregator.connector;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.Utils;

/**
 * Reads one batch of many with Kafka's own classes and compares it with what was read or written as
 * bytes, before it is sent: a broker cannot detect an encoding error, as we compute the checksum.
 */
final class BatchSample {
    /** How many batches there are for each that is compared; the first of a task is. */
    static final int EVERY = 1000;

    private record Content(long timestamp, byte[] key, byte[] value, Headers headers) {
        private boolean isSame(Content other) {
            return timestamp == other.timestamp && Arrays.equals(key, other.key)
                && Arrays.equals(value, other.value)
                && Arrays.equals(headers.toArray(), other.headers.toArray());
        }
    }

    private final List<Content> expected = new ArrayList<>();

    /** A record of the batch that is written. */
    void add(long timestamp, byte[] key, byte[] value, Headers headers) {
        expected.add(new Content(timestamp, key, value, headers));
    }

    /** IllegalStateException when written batches do not hold exactly what was added. */
    void check(List<BatchBuilder.Batch> written) {
        List<Content> found = new ArrayList<>();
        for (BatchBuilder.Batch one : written) {
            for (Record each : batch(one.bytes())) {
                found.add(content(each));
            }
        }
        compare(found, "written");
    }

    /** IllegalStateException when a cursor does not find what Kafka's reader finds in a batch. */
    static void checkCursor(ByteBuffer fetched) {
        BatchSample sample = new BatchSample();
        List<Content> found = new ArrayList<>();
        try {
            for (Record each : batch(fetched)) {
                Content one = content(each);
                sample.add(one.timestamp, one.key, one.value, one.headers);
            }
            BatchCursor cursor = new BatchCursor();
            cursor.open(fetched, 0);
            while (cursor.next()) {
                found.add(
                    new Content(cursor.timestamp, cursor.key(), cursor.value(), cursor.headers()));
            }
        } catch (KafkaException | IllegalArgumentException damaged) {
            // The reader of the batch finds that as well, and stops its partition.
            return;
        }
        sample.compare(found, "read");
    }

    private void compare(List<Content> found, String done) {
        boolean isSame = found.size() == expected.size();
        for (int i = 0; isSame && i < found.size(); i++) {
            isSame = found.get(i).isSame(expected.get(i));
        }
        if (!isSame) {
            throw new IllegalStateException(
                "a batch that was " + done + " as bytes is not what Kafka's own classes find in"
                + " it; nothing of it was sent: set stream.path: objects, and report this");
        }
    }

    private static Content content(Record of) {
        return new Content(
            of.timestamp(),
            Utils.toNullableArray(of.key()),
            Utils.toNullableArray(of.value()),
            new RecordHeaders(of.headers()));
    }

    private static RecordBatch batch(ByteBuffer bytes) {
        return MemoryRecords.readableRecords(bytes.slice()).batches().iterator().next();
    }
}
