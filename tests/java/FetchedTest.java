package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Queue;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.internals.BatchCollector;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.SimpleRecord;
import org.junit.jupiter.api.Test;

/** Damage that a checksum does not show: reading continues from the first record that has it. */
class FetchedTest {
    private static final TopicPartition ORDERS = new TopicPartition("orders", 0);
    private static final long FIRST = 5;
    /** Of a record without key and headers, and with a value of one byte. */
    private static final int RECORD_BYTES = 8;
    private static final int OFFSET_AT = 3;
    private static final int VALUE_LENGTH_AT = 5;
    /** 63, as the format writes it. */
    private static final byte FAR = 0x7e;

    @Test
    void theOffsetThatADamagedRecordSaysIsNotBelieved() throws ReflectiveOperationException {
        ByteBuffer bytes = threeRecords();
        int second = BatchFormat.RECORDS_AT + RECORD_BYTES;
        bytes.put(second + OFFSET_AT, FAR);
        bytes.put(second + VALUE_LENGTH_AT, FAR);
        assertEquals(FIRST + 1, damagedBehindTheFirst(bytes));
    }

    @Test
    void theLastRecordOfABatchWithMoreBehindItIsNotPassed() throws ReflectiveOperationException {
        ByteBuffer bytes = threeRecords();
        bytes.putInt(BatchFormat.COUNT_AT, 2);
        assertEquals(FIRST + 1, damagedBehindTheFirst(bytes));
    }

    private static ByteBuffer threeRecords() {
        SimpleRecord record = new SimpleRecord(7, null, new byte[1]);
        ByteBuffer bytes =
            MemoryRecords.withRecords(FIRST, Compression.NONE, record, record, record).buffer();
        assertEquals(BatchFormat.RECORDS_AT + 3 * RECORD_BYTES, bytes.remaining());
        return bytes.slice();
    }

    /** From where on a batch cannot be read of which the first record can. */
    private static long damagedBehindTheFirst(ByteBuffer bytes)
        throws ReflectiveOperationException {
        try (
            KafkaConsumer<byte[], byte[]> consumer =
                HubReader.consumer(Map.of("bootstrap.servers", "127.0.0.1:1"))) {
            BatchCollector collector = BatchCollector.into(consumer);
            @SuppressWarnings("unchecked")
            Queue<BatchCollector.Batch> coming = (Queue<BatchCollector.Batch>) PrivateFields.get(
                BatchCollector.class, collector, "batches");
            coming.add(new BatchCollector.Batch(ORDERS, bytes, 0));
            Fetched fetched = new Fetched.Bytes(collector, false);
            assertTrue(fetched.more());
            fetched.next();
            assertEquals(FIRST, fetched.offset());
            assertThrows(KafkaException.class, fetched::more);
            assertFalse(fetched.more());
            assertEquals(ORDERS, fetched.partition());
            return fetched.damagedAt();
        }
    }
}
