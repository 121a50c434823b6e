package aggregator.connector;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.kafka.clients.consumer.internals.BatchCollector;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Each batch of some ranges that may be copied as it is, or was, with a hash of all that its
 * records are, without unpacking it: the columns of {@link Columns#batches}. Batches that a range
 * cuts, and others, are left out.
 */
final class RangeBatches extends RangeReader<BatchHead> {
    private final BatchCollector collector;
    /** Null for a source. */
    private final PassedOrigins known;
    private final GenericInternalRow row = new GenericInternalRow(7);

    RangeBatches(RangeSource.Range range) {
        super(range);
        known = range.known();
        try {
            collector = BatchCollector.into(consumer);
        } catch (ReflectiveOperationException another) {
            throw new IllegalStateException(another);
        }
    }

    @Override
    Iterator<BatchHead> poll() {
        consumer.poll(POLL);
        List<BatchHead> found = new ArrayList<>();
        BatchCollector.Batch each;
        while ((each = collector.next()) != null) {
            BatchHead head = BatchHead.of(each.bytes());
            boolean isKnown = known == null || known.place(head.producerId()) != null;
            if (isKnown && head.isPlain() && head.first() >= each.from()) {
                found.add(head);
            }
        }
        return found.iterator();
    }

    @Override
    long offset(BatchHead batch) {
        return batch.last();
    }

    @Override
    InternalRow row(BatchHead batch) {
        row.update(0, UTF8String.fromString(place.topic()));
        row.update(1, place.partition());
        row.update(2, batch.first());
        row.update(3, batch.last());
        row.update(4, batch.contentHash());
        row.update(
            5, known == null ? null : UTF8String.fromString(known.place(batch.producerId())));
        row.update(6, known == null ? null : batch.origin());
        return row;
    }
}
