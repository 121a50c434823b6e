package aggregator.connector;

import java.io.IOException;
import java.time.Duration;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CancellationException;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;

/**
 * What a log holds in some ranges of offsets, one after the other, a row for each record or batch;
 * fails after a minute without one.
 */
abstract class RangeReader<T> implements PartitionReader<InternalRow> {
    static final Duration POLL = Duration.ofMillis(200);
    private static final long SILENCE_NANOS = 60_000_000_000L;

    final TopicPartition place;
    final KafkaConsumer<byte[], byte[]> consumer;
    /** First, behind the last, and so on. */
    private final long[] bounds;
    private int at;
    private Iterator<T> polled = Collections.emptyIterator();
    private T found;

    RangeReader(RangeSource.Range range) {
        place = new TopicPartition(range.topic(), range.partition());
        bounds = range.bounds();
        consumer = HubReader.consumer(range.consumer());
        consumer.assign(List.of(place));
        consumer.seek(place, bounds[0]);
    }

    /** What a poll has brought, in the order of the log. Throws what a consumer throws. */
    abstract Iterator<T> poll();

    /** The offset of a record, or of the last one of a batch. */
    abstract long offset(T each);

    abstract InternalRow row(T each);

    @Override
    public final boolean next() throws IOException {
        long heard = System.nanoTime();
        while (true) {
            if (polled.hasNext()) {
                found = polled.next();
                if (offset(found) < to()) {
                    return true;
                }
                polled = Collections.emptyIterator();
            }
            // Behind markers and what compaction took there may be nothing at the end.
            long position = consumer.position(place);
            if (position >= to()) {
                at += 2;
                if (at == bounds.length) {
                    return false;
                }
                consumer.seek(place, bounds[at]);
                continue;
            }
            if (TaskContext.get().isInterrupted()) {
                throw new CancellationException("stopped while " + place + " was read");
            }
            polled = pollFrom(position);
            if (polled.hasNext() || consumer.position(place) > position) {
                heard = System.nanoTime();
            } else if (System.nanoTime() - heard > SILENCE_NANOS) {
                throw new IOException(
                    place + " gave no record for a minute at offset " + position + " of " + to());
            }
        }
    }

    private long to() {
        return bounds[at + 1];
    }

    private Iterator<T> pollFrom(long position) throws IOException {
        try {
            return poll();
        } catch (InvalidOffsetException | ApiException | InterruptException passing) {
            // What is gone, refused or away is no matter of this place.
            throw passing;
        } catch (KafkaException | IllegalStateException | IllegalArgumentException damaged) {
            // The latter two are codes of errors that the client does not expect.
            Throwable cause = damaged.getCause() == null ? damaged : damaged.getCause();
            throw new IOException(
                place + "@" + position + " cannot be read: " + cause.getMessage(), damaged);
        }
    }

    @Override
    public final InternalRow get() {
        return row(found);
    }

    @Override
    public void close() {
        consumer.close(Duration.ZERO);
    }
}
