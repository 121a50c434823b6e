package org.apache.kafka.clients.producer.internals;

import aggregator.connector.BatchFormat;
import aggregator.connector.PrivateFields;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.zip.CRC32C;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Puts finished batches into the queue of a producer, whose own sender does all else: producer ids
 * and sequence numbers, requests, retries, leaders, timeouts. Used by one thread.
 *
 * <p>It does not keep its producer, so that a map with producers as weak keys forgets both.
 */
public final class BatchDoor {
    private final RecordAccumulator accumulator;
    private final Sender sender;
    private final IncompleteBatches incomplete;
    private final Method queueOf;
    private final Map<TopicPartition, Deque<ProducerBatch>> queues = new HashMap<>();

    /** ReflectiveOperationException where the client is not of the shape of the pinned one. */
    public BatchDoor(Producer<byte[], byte[]> producer) throws ReflectiveOperationException {
        accumulator =
            (RecordAccumulator) PrivateFields.get(KafkaProducer.class, producer, "accumulator");
        sender = (Sender) PrivateFields.get(KafkaProducer.class, producer, "sender");
        incomplete = (IncompleteBatches) PrivateFields.get(
            RecordAccumulator.class, accumulator, "incomplete");
        queueOf = queues();
    }

    /** ReflectiveOperationException where the constructor would not find what it needs. */
    public static void check() throws ReflectiveOperationException {
        PrivateFields.find(KafkaProducer.class, "accumulator");
        PrivateFields.find(KafkaProducer.class, "sender");
        PrivateFields.find(RecordAccumulator.class, "incomplete");
        queues();
    }

    /** The producer's state in the header of a batch. */
    public record State(long id, short epoch, int sequence) {
        /** None, in whose place an idempotent producer puts its own. */
        public static final State NONE = new State(
            RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE);
    }

    /**
     * Sends a batch of `count` records by its producer: of format 2 and finished, but for its state
     * and checksum. Another state than `NONE` takes a producer that is not idempotent. The callback
     * gets the offset of its first record. The bytes are the door's from now on, until the callback
     * was called; with an error they may be read for longer.
     */
    public void send(
        Producer<byte[], byte[]> producer,
        TopicPartition to,
        ByteBuffer bytes,
        int count,
        State state,
        Callback done) throws ReflectiveOperationException {
        Deque<ProducerBatch> queue = queues.get(to);
        if (queue == null) {
            queue = open(producer, to);
        }
        long now = System.currentTimeMillis();
        // As one that was split off another: its memory is not of the producer's pool.
        Finished finished = new Finished(bytes, count, state, done);
        ProducerBatch batch = new ProducerBatch(to, finished, now, true);
        batch.tryAppend(now, null, null, Record.EMPTY_HEADERS, done, now);
        batch.recordCount = count;
        incomplete.add(batch);
        synchronized (queue) {
            queue.addLast(batch);
        }
        sender.wakeup();
    }

    @SuppressWarnings("unchecked")
    private Deque<ProducerBatch> open(Producer<byte[], byte[]> producer, TopicPartition to)
        throws ReflectiveOperationException {
        // As a first record would: it finds out whether the topic may be written.
        producer.partitionsFor(to.topic());
        Deque<ProducerBatch> found = (Deque<ProducerBatch>) queueOf.invoke(accumulator, to);
        queues.put(to, found);
        return found;
    }

    private static Method queues() throws ReflectiveOperationException {
        Method found =
            RecordAccumulator.class.getDeclaredMethod("getOrCreateDeque", TopicPartition.class);
        found.setAccessible(true);
        return found;
    }

    /** A builder that is full from the start. The sender has it write the producer's state. */
    private static final class Finished extends MemoryRecordsBuilder {
        private final ByteBuffer bytes;
        private final int count;
        private final Callback done;
        private State state;
        private boolean closed;
        private boolean handedOut;
        private MemoryRecords built;

        private Finished(ByteBuffer bytes, int count, State state, Callback done) {
            super(
                new ByteBufferOutputStream(BatchFormat.RECORDS_AT),
                RecordBatch.MAGIC_VALUE_V2,
                Compression.NONE,
                TimestampType.CREATE_TIME,
                0,
                0,
                RecordBatch.NO_PRODUCER_ID,
                RecordBatch.NO_PRODUCER_EPOCH,
                RecordBatch.NO_SEQUENCE,
                false,
                false,
                RecordBatch.NO_PARTITION_LEADER_EPOCH,
                BatchFormat.RECORDS_AT);
            this.bytes = bytes;
            this.count = count;
            this.state = state;
            this.done = done;
        }

        @Override
        public boolean hasRoomFor(long timestamp, byte[] key, byte[] value, Header[] headers) {
            return true;
        }

        @Override
        public void append(long timestamp, byte[] key, byte[] value, Header[] headers) {
            // The one call by which the batch learns of its callback.
        }

        @Override
        public boolean isFull() {
            return true;
        }

        @Override
        public boolean isClosed() {
            return closed;
        }

        @Override
        public int numRecords() {
            return count;
        }

        @Override
        public int estimatedSizeInBytes() {
            return bytes.remaining();
        }

        @Override
        public double compressionRatio() {
            return 1;
        }

        @Override
        public void setProducerState(
            long producerId, short producerEpoch, int baseSequence, boolean isTransactional) {
            state = new State(producerId, producerEpoch, baseSequence);
        }

        @Override
        public void reopenAndRewriteProducerState(
            long producerId, short producerEpoch, int baseSequence, boolean isTransactional) {
            closed = false;
            setProducerState(producerId, producerEpoch, baseSequence, isTransactional);
        }

        @Override
        public long producerId() {
            return state.id;
        }

        @Override
        public short producerEpoch() {
            return state.epoch;
        }

        @Override
        public int baseSequence() {
            return state.sequence;
        }

        @Override
        public void closeForRecordAppends() {
            // It is.
        }

        @Override
        public void close() {
            if (closed) {
                return;
            }
            int at = bytes.position();
            bytes.putInt(at + BatchFormat.LEADER_EPOCH_AT, RecordBatch.NO_PARTITION_LEADER_EPOCH);
            bytes.putLong(at + BatchFormat.PRODUCER_ID_AT, state.id);
            bytes.putShort(at + BatchFormat.PRODUCER_EPOCH_AT, state.epoch);
            bytes.putInt(at + BatchFormat.SEQUENCE_AT, state.sequence);
            CRC32C sum = new CRC32C();
            sum.update(bytes.duplicate().position(at + BatchFormat.CHECKED_FROM));
            bytes.putInt(at + BatchFormat.CHECKSUM_AT, (int) sum.getValue());
            built = MemoryRecords.readableRecords(bytes.slice());
            closed = true;
        }

        @Override
        public MemoryRecords build() {
            close();
            if (handedOut && isToBeSplit()) {
                RuntimeException why = new RecordTooLargeException(
                    "the hub has refused a batch of " + bytes.remaining() + " bytes and " + count
                    + " records as too large");
                done.onCompletion(null, why);
                throw why;
            }
            handedOut = true;
            return built;
        }

        /**
         * The sender takes a batch apart that a broker has called too large. Ours are below what
         * each hub topic takes, so one of them has a smaller limit by now, and the task has to end.
         */
        private static boolean isToBeSplit() {
            return StackWalker.getInstance().walk(
                frames -> frames.limit(6).anyMatch(it -> it.getMethodName().equals("split")));
        }
    }
}
