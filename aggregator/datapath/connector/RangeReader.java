package aggregator.connector;

import java.io.IOException;
import java.time.Duration;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CancellationException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;

/** The records of one range, to its end; fails after a minute without a record. */
final class RangeReader implements PartitionReader<InternalRow> {
    private static final long SILENCE_NANOS = 60_000_000_000L;
    private static final Duration POLL = Duration.ofMillis(200);

    private final RangeSource.Range range;
    private final TopicPartition place;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final HubRecords records;
    private final GenericInternalRow row = new GenericInternalRow(8);
    private Iterator<ConsumerRecord<byte[], byte[]>> polled = Collections.emptyIterator();
    private ConsumerRecord<byte[], byte[]> record;

    RangeReader(RangeSource.Range range) {
        this.range = range;
        place = new TopicPartition(range.topic(), range.partition());
        consumer = HubReader.consumer(range.consumer());
        consumer.assign(List.of(place));
        consumer.seek(place, range.from());
        boolean has = !range.origins().isEmpty();
        records =
            new HubRecords(consumer, has ? PassedOrigins.of(Json.parse(range.origins())) : null);
    }

    @Override
    public boolean next() throws IOException {
        long heard = System.nanoTime();
        while (!polled.hasNext()) {
            // Behind markers and what compaction took there may be no record at the end.
            long position = consumer.position(place);
            if (position >= range.to()) {
                return false;
            }
            if (TaskContext.get().isInterrupted()) {
                throw new CancellationException("stopped while " + place + " was read");
            }
            polled = poll(position);
            if (polled.hasNext() || consumer.position(place) > position) {
                heard = System.nanoTime();
            } else if (System.nanoTime() - heard > SILENCE_NANOS) {
                throw new IOException(
                    place + " gave no record for a minute at offset " + position + " of "
                    + range.to());
            }
        }
        record = polled.next();
        return record.offset() < range.to();
    }

    private Iterator<ConsumerRecord<byte[], byte[]>> poll(long position) throws IOException {
        try {
            return records.poll(POLL).records(place).iterator();
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
    public InternalRow get() {
        Columns.fillExact(row, record);
        return row;
    }

    @Override
    public void close() {
        consumer.close(Duration.ZERO);
    }
}
