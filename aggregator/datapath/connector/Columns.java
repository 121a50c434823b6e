package aggregator.connector;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The columns of rows: which there are, and a record as one. A row is reused: copy it to keep it.
 */
final class Columns {
    private static final StructType PLAIN = StructType.fromDDL("offset bigint");
    private static final StructType RECORD = StructType.fromDDL(
        "key binary, value binary, topic string, partition int, offset bigint, timestamp"
        + " timestamp, headers array<struct<key:string,value:binary>>");

    private static final StructType EXACT = RECORD.add("timestamp_ms", "bigint");
    private static final StructType BATCH = StructType.fromDDL(
        "topic string, partition int, offset bigint, last bigint, hash bigint, place string,"
        + " origin bigint");
    /** The first moment of the last day that all readers of timestamps know, in their zones. */
    private static final long BEYOND_MS = 253_402_214_400_000L;

    private Columns() {}

    static StructType schema(boolean plain) {
        return plain ? PLAIN : RECORD;
    }

    /** A whole record with its timestamp as it is, in milliseconds; -1 where it has none. */
    static StructType exact() {
        return EXACT;
    }

    /** A batch: of records from `offset` to `last`; at the hub with the origin of its first one. */
    static StructType batches() {
        return BATCH;
    }

    static void fillExact(GenericInternalRow row, ConsumerRecord<byte[], byte[]> record) {
        fill(row, record);
        row.update(7, record.timestamp());
    }

    static void fill(GenericInternalRow row, ConsumerRecord<byte[], byte[]> record) {
        row.update(0, record.key());
        row.update(1, record.value());
        row.update(2, UTF8String.fromString(record.topic()));
        row.update(3, record.partition());
        row.update(4, record.offset());
        row.update(5, moment(record.timestamp()));
        row.update(6, headers(record.headers()));
    }

    /**
     * In Spark's microseconds. Null for a record without a timestamp, and for one that is beyond
     * the year 9999: what is meant as micro- or nanoseconds, which Spark, or who reads what it
     * writes, cannot hold.
     */
    private static Long moment(long millis) {
        return millis < 0 || millis >= BEYOND_MS ? null : Long.valueOf(millis * 1000);
    }

    /** Where the columns that the sink reads stand in a frame with these names. */
    static int[] places(StructType schema) {
        return new int[] {
            schema.fieldIndex("offset"),
            schema.fieldIndex("key"),
            schema.fieldIndex("value"),
            schema.fieldIndex("headers")};
    }

    static Headers headers(InternalRow row, int at) {
        RecordHeaders headers = new RecordHeaders();
        if (!row.isNullAt(at)) {
            ArrayData found = row.getArray(at);
            for (int i = 0; i < found.numElements(); i++) {
                InternalRow each = found.getStruct(i, 2);
                byte[] value = each.isNullAt(1) ? null : each.getBinary(1);
                headers.add(new RecordHeader(each.getUTF8String(0).toString(), value));
            }
        }
        return headers;
    }

    /** Null for a record without any, as Spark's own source has it. */
    private static ArrayData headers(Headers own) {
        Header[] found = own.toArray();
        if (found.length == 0) {
            return null;
        }
        Object[] rows = new Object[found.length];
        for (int i = 0; i < found.length; i++) {
            Object[] pair = {UTF8String.fromString(found[i].key()), found[i].value()};
            rows[i] = new GenericInternalRow(pair);
        }
        return new GenericArrayData(rows);
    }
}
