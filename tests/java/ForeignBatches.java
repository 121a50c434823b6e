package aggregator.connector;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.TopicPartition;

/** Whole batches of one partition that have an origin, as a reader has fetched them. */
final class ForeignBatches extends Fetched {
    private final TopicPartition partition;
    private final Deque<BatchHead> coming = new ArrayDeque<>();
    private BatchHead batch;

    ForeignBatches(TopicPartition partition, BatchHead... batches) {
        this.partition = partition;
        coming.addAll(List.of(batches));
    }

    /** A batch of `count` records at these offsets. */
    static BatchHead batch(long first, long last, int count) {
        ByteBuffer bytes = ByteBuffer.allocate(BatchFormat.RECORDS_AT);
        bytes.putInt(BatchFormat.LEADER_EPOCH_AT, 4);
        return new BatchHead(bytes, first, last, count, 0);
    }

    @Override
    void add(ConsumerRecords<byte[], byte[]> polled) {
        // They are there from the start.
    }

    @Override
    boolean more() {
        return !coming.isEmpty();
    }

    @Override
    TopicPartition partition() {
        return partition;
    }

    @Override
    void next() {
        batch = coming.remove();
    }

    @Override
    long offset() {
        return batch.first();
    }

    @Override
    long last() {
        return batch.last();
    }

    @Override
    BatchHead whole() {
        return batch;
    }

    @Override
    boolean isForeign() {
        return true;
    }

    @Override
    BatchHead batch() {
        return batch;
    }

    @Override
    void pass(Passing rule) {
        // Nothing of it goes anywhere.
    }

    @Override
    long timestamp() {
        return 0;
    }

    @Override
    Optional<Integer> leaderEpoch() {
        return batch.leaderEpoch();
    }

    @Override
    int size() {
        return batch.size();
    }

    @Override
    ConsumerRecord<byte[], byte[]> record() {
        throw new AssertionError("it is not read");
    }

    @Override
    BatchCursor cursor() {
        throw new AssertionError("it is not read");
    }

    @Override
    long damagedAt() {
        return -1;
    }

    @Override
    void clear() {
        coming.clear();
    }
}
