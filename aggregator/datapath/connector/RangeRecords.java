package aggregator.connector;

import java.util.Iterator;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;

/** Each record of some ranges, with the columns of {@link Columns#exact}. */
final class RangeRecords extends RangeReader<ConsumerRecord<byte[], byte[]>> {
    private final HubRecords records;
    private final GenericInternalRow row = new GenericInternalRow(8);

    RangeRecords(RangeSource.Range range) {
        super(range);
        records = new HubRecords(consumer, range.known());
    }

    @Override
    Iterator<ConsumerRecord<byte[], byte[]>> poll() {
        return records.poll(POLL).records(place).iterator();
    }

    @Override
    long offset(ConsumerRecord<byte[], byte[]> record) {
        return record.offset();
    }

    @Override
    InternalRow row(ConsumerRecord<byte[], byte[]> record) {
        Columns.fillExact(row, record);
        return row;
    }
}
