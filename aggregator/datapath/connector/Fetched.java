package aggregator.connector;

import java.util.Collections;
import java.util.Iterator;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.internals.BatchCollector;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;

/**
 * What a consumer has fetched, record after record: as objects, or as bytes of batches.
 *
 * <p>`more` says whether there is another one, `next` moves to it, and the other methods describe
 * that one until `more` is called again. Used by one thread.
 */
abstract class Fetched {
    /** Adds what a poll has returned. */
    abstract void add(ConsumerRecords<byte[], byte[]> polled);

    /** KafkaException with the name of its partition for a batch that cannot be read. */
    abstract boolean more();

    /** The partition of the next one. */
    abstract TopicPartition partition();

    abstract void next();

    abstract long offset();

    /** The offset of the last record that it is: another one than the first of a whole batch. */
    long last() {
        return offset();
    }

    /** The batch that goes as it is; null where it is a record. */
    BatchHead whole() {
        return null;
    }

    /** Whether it is a whole batch of a source of this cluster, copied as it is, and unwanted. */
    boolean isForeign() {
        return false;
    }

    /** The batch that it is, or that its record lies in; null where records are objects. */
    BatchHead batch() {
        return null;
    }

    /** From now on it is a whole batch where this rule takes one. */
    abstract void pass(Passing rule);

    abstract long timestamp();

    abstract Optional<Integer> leaderEpoch();

    /** Bytes of its key and value. */
    abstract int size();

    /** The whole record as an object. */
    abstract ConsumerRecord<byte[], byte[]> record();

    /** Where it lies in its batch; null where records are objects. */
    abstract BatchCursor cursor();

    /** The offset from which on a batch could not be read; -1 where that is not known. */
    abstract long damagedAt();

    /** Forgets all of it. */
    abstract void clear();

    /** Records as Kafka's consumer returns them. */
    static final class Objects extends Fetched {
        private ConsumerRecords<byte[], byte[]> polled = ConsumerRecords.empty();
        private Iterator<TopicPartition> left = Collections.emptyIterator();
        private Iterator<ConsumerRecord<byte[], byte[]>> buffered = Collections.emptyIterator();
        private TopicPartition partition;
        private ConsumerRecord<byte[], byte[]> record;

        @Override
        void add(ConsumerRecords<byte[], byte[]> more) {
            polled = more;
            left = more.partitions().iterator();
        }

        @Override
        boolean more() {
            while (!buffered.hasNext()) {
                if (!left.hasNext()) {
                    return false;
                }
                partition = left.next();
                buffered = polled.records(partition).iterator();
            }
            return true;
        }

        @Override
        TopicPartition partition() {
            return partition;
        }

        @Override
        void next() {
            record = buffered.next();
        }

        @Override
        long offset() {
            return record.offset();
        }

        @Override
        long timestamp() {
            return record.timestamp();
        }

        @Override
        Optional<Integer> leaderEpoch() {
            return record.leaderEpoch();
        }

        @Override
        int size() {
            return Math.max(0, record.serializedKeySize())
                + Math.max(0, record.serializedValueSize());
        }

        @Override
        ConsumerRecord<byte[], byte[]> record() {
            return record;
        }

        @Override
        BatchCursor cursor() {
            return null;
        }

        @Override
        void pass(Passing rule) {
            // Records that are objects have no batch.
        }

        @Override
        long damagedAt() {
            return -1;
        }

        @Override
        void clear() {
            polled = ConsumerRecords.empty();
            left = Collections.emptyIterator();
            buffered = Collections.emptyIterator();
        }
    }

    /** Batches that a collector has kept, and the places of records in them. */
    static final class Bytes extends Fetched {
        private final BatchCollector collector;
        private final BatchCursor cursor = new BatchCursor();
        /** Null where the origins of passed batches are not wanted. */
        private final PassedOrigins origins;
        /** Whether passed batches are not wanted at all. */
        private final boolean leavesPassed;
        private Passing passing = (of, batch, from) -> false;
        private TopicPartition partition;
        private BatchHead whole;
        private BatchHead head;
        private long damagedAt = -1;
        private boolean isReady;
        private long number;

        /** With `leavesPassed` batches that were passed are foreign. */
        Bytes(BatchCollector collector, boolean leavesPassed) {
            this(collector, null, leavesPassed);
        }

        /** Records of batches that were passed have the origin that these know. */
        Bytes(BatchCollector collector, PassedOrigins origins) {
            this(collector, origins, false);
        }

        private Bytes(BatchCollector collector, PassedOrigins origins, boolean leavesPassed) {
            this.collector = collector;
            this.origins = origins;
            this.leavesPassed = leavesPassed;
        }

        @Override
        void pass(Passing rule) {
            passing = rule;
        }

        @Override
        void add(ConsumerRecords<byte[], byte[]> polled) {
            // It returns none: the collector has all.
        }

        @Override
        boolean more() {
            while (!isReady) {
                if (advance()) {
                    isReady = true;
                } else if (!open()) {
                    return false;
                } else if (whole != null) {
                    isReady = true;
                }
            }
            return true;
        }

        private boolean advance() {
            whole = null;
            try {
                return cursor.next();
            } catch (RuntimeException damaged) {
                throw damaged(damaged);
            }
        }

        private boolean open() {
            BatchCollector.Batch batch = collector.next();
            if (batch == null) {
                return false;
            }
            partition = batch.partition();
            head = BatchHead.of(batch.bytes());
            if (isLeft(head) || passing.takes(partition, head, batch.from())) {
                whole = head;
                return true;
            }
            if (number++ % BatchSample.EVERY == 0) {
                BatchSample.checkCursor(batch.bytes());
            }
            damagedAt = Math.max(batch.from(), head.first());
            try {
                cursor.open(batch.bytes(), batch.from());
            } catch (RuntimeException damaged) {
                throw damaged(damaged);
            }
            return true;
        }

        private boolean isLeft(BatchHead batch) {
            return leavesPassed && PassedOrigin.isPassed(batch.producerId());
        }

        private KafkaException damaged(RuntimeException why) {
            cursor.clear();
            return new KafkaException(
                "Received exception when fetching the next record from " + partition
                    + ". If needed, please seek past the record to continue consumption.",
                why);
        }

        @Override
        TopicPartition partition() {
            return partition;
        }

        @Override
        void next() {
            isReady = false;
            // Nothing that a damaged record says of itself counts, its offset neither.
            damagedAt = last() + 1;
        }

        @Override
        long offset() {
            return whole == null ? cursor.offset : whole.first();
        }

        @Override
        long last() {
            return whole == null ? cursor.offset : whole.last();
        }

        @Override
        BatchHead whole() {
            return whole;
        }

        @Override
        boolean isForeign() {
            return whole != null && isLeft(whole);
        }

        @Override
        BatchHead batch() {
            return head;
        }

        @Override
        long timestamp() {
            return whole == null ? cursor.timestamp : whole.newest();
        }

        @Override
        Optional<Integer> leaderEpoch() {
            return whole == null ? cursor.leaderEpoch : whole.leaderEpoch();
        }

        @Override
        int size() {
            return whole != null ? whole.size()
                                 : Math.max(0, cursor.keyLength) + Math.max(0, cursor.valueLength);
        }

        @Override
        ConsumerRecord<byte[], byte[]> record() {
            RecordHeaders headers = cursor.headers();
            if (origins != null) {
                origins.append(headers, cursor);
            }
            return new ConsumerRecord<>(
                partition.topic(),
                partition.partition(),
                cursor.offset,
                cursor.timestamp,
                cursor.timestampType,
                cursor.keyLength,
                cursor.valueLength,
                cursor.key(),
                cursor.value(),
                headers,
                cursor.leaderEpoch);
        }

        @Override
        BatchCursor cursor() {
            return cursor;
        }

        @Override
        long damagedAt() {
            return damagedAt;
        }

        @Override
        void clear() {
            collector.clear();
            cursor.clear();
            whole = null;
            isReady = false;
        }
    }
}
