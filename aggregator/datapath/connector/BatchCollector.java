package org.apache.kafka.clients.consumer.internals;

import aggregator.connector.BatchFormat;
import aggregator.connector.PrivateFields;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.PriorityQueue;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.requests.FetchResponse;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;

/**
 * Takes the place of a consumer's own collector: `poll` returns no records, moves its positions,
 * and leaves here the batches that it has fetched, as bytes.
 *
 * <p>Assignment, positions, leader epochs, fetch sessions and the errors of a partition stay
 * Kafka's. Markers of transactions are left out, and aborted batches of a reader that reads
 * committed records alone. A batch of an old format comes as one of the format of now. Used by the
 * thread that polls.
 */
public final class BatchCollector extends FetchCollector<byte[], byte[]> {
    /** A batch as it was fetched; what lies below `from` was not asked for. */
    public record Batch(TopicPartition partition, ByteBuffer bytes, long from) {}

    private static final int SPARE_BYTES = 512;
    /** With more than this a poll takes no other partition: what is fetched waits here twice. */
    private static final long MOST_BYTES = 2_000_000;

    private final ArrayDeque<Batch> batches = new ArrayDeque<>();
    private final SubscriptionState subscriptions;
    private final boolean committed;
    private final boolean checksums;
    private long takenBytes;

    private BatchCollector(
        Fetcher<byte[], byte[]> of, Deserializers<byte[], byte[]> deserializers) {
        super(
            new LogContext(),
            of.metadata,
            of.subscriptions,
            of.fetchConfig,
            deserializers,
            of.metricsManager,
            Time.SYSTEM);
        subscriptions = of.subscriptions;
        committed = of.fetchConfig.isolationLevel == IsolationLevel.READ_COMMITTED;
        checksums = of.fetchConfig.checkCrcs;
    }

    /**
     * Has this consumer, which has polled nothing yet, fetch batches from now on.
     *
     * <p>ReflectiveOperationException where the client is not of the shape of the pinned one.
     */
    @SuppressWarnings("unchecked")
    public static BatchCollector into(Consumer<byte[], byte[]> consumer)
        throws ReflectiveOperationException {
        Fetcher<byte[], byte[]> fetcher = fetcher(consumer);
        Field place = PrivateFields.find(Fetcher.class, "fetchCollector");
        BatchCollector made = new BatchCollector(
            fetcher,
            (Deserializers<byte[], byte[]>) PrivateFields.get(
                FetchCollector.class, place.get(fetcher), "deserializers"));
        place.set(fetcher, made);
        return made;
    }

    /** What fetches for a consumer. Throws as `into` does. */
    @SuppressWarnings("unchecked")
    static Fetcher<byte[], byte[]> fetcher(Consumer<byte[], byte[]> consumer)
        throws ReflectiveOperationException {
        Object classic = PrivateFields.get(KafkaConsumer.class, consumer, "delegate");
        return (Fetcher<byte[], byte[]>) PrivateFields.get(
            ClassicKafkaConsumer.class, classic, "fetcher");
    }

    /** ReflectiveOperationException where `into` would not find what it needs. */
    public static void check() throws ReflectiveOperationException {
        if (BatchCollector.class.getClassLoader() != KafkaConsumer.class.getClassLoader()) {
            throw new ClassNotFoundException("the connector and kafka-clients have two loaders");
        }
        PrivateFields.find(KafkaConsumer.class, "delegate");
        PrivateFields.find(ClassicKafkaConsumer.class, "fetcher");
        PrivateFields.find(Fetcher.class, "fetchCollector");
        PrivateFields.find(FetchCollector.class, "deserializers");
    }

    /** The next batch that was fetched, in the order of its partition; null for none. */
    public Batch next() {
        return batches.poll();
    }

    /** Forgets what was fetched and not taken. */
    public void clear() {
        batches.clear();
    }

    @Override
    public Fetch<byte[], byte[]> collectFetch(FetchBuffer buffer) {
        Fetch<byte[], byte[]> all = Fetch.empty();
        takenBytes = 0;
        while (true) {
            CompletedFetch next = buffer.peek();
            // A partition that is left is not fetched again meanwhile.
            if (next == null || takenBytes > MOST_BYTES) {
                return all;
            }
            CompletedFetch ready;
            try {
                ready = next.isInitialized() ? next : initialize(next);
            } catch (RuntimeException error) {
                // What came before it is handed out first, and it is found again then.
                if (!all.isEmpty()) {
                    return all;
                }
                // Not if it holds records: they are read again, and found damaged again.
                if (FetchResponse.recordsSize(next.partitionData) == 0) {
                    buffer.poll();
                }
                throw error;
            }
            buffer.poll();
            if (ready != null) {
                try {
                    take(ready, all);
                } catch (KafkaException damaged) {
                    if (all.isEmpty()) {
                        throw damaged;
                    }
                    // It is fetched again from there on, and fails again then.
                    return all;
                } finally {
                    ready.drain();
                }
            }
        }
    }

    /** Leaves the batches of one partition here, and moves its position behind them. */
    private void take(CompletedFetch fetch, Fetch<byte[], byte[]> all) {
        TopicPartition of = fetch.partition;
        if (!subscriptions.isAssigned(of) || !subscriptions.isFetchable(of)) {
            return;
        }
        SubscriptionState.FetchPosition position = subscriptions.position(of);
        if (position == null || fetch.nextFetchOffset() != position.offset) {
            return;
        }
        Taken taken = new Taken(of, position.offset, fetch.partitionData);
        KafkaException damage = null;
        try {
            taken.all();
        } catch (KafkaException | IllegalArgumentException | IndexOutOfBoundsException damaged) {
            damage = new KafkaException(
                "Received exception when fetching the next record from " + of
                    + ". If needed, please seek past the record to continue consumption.",
                damaged);
        }
        if (taken.next > position.offset) {
            subscriptions.position(
                of,
                new SubscriptionState.FetchPosition(
                    taken.next, taken.epoch, position.currentLeader));
            // As Kafka's does: the others come first in the next request.
            subscriptions.movePartitionToEnd(of);
            all.add(Fetch.forPartition(of, List.of(), true));
        } else if (damage != null) {
            throw damage;
        }
    }

    /** Goes through the batches of one partition, up to the first that cannot be read. */
    private final class Taken {
        private final TopicPartition of;
        private final long from;
        private final MemoryRecords records;
        private final Aborted aborted;
        private long next;
        private Optional<Integer> epoch = Optional.empty();

        private Taken(TopicPartition of, long from, FetchResponseData.PartitionData data) {
            this.of = of;
            this.from = from;
            records = (MemoryRecords) FetchResponse.recordsOrFail(data);
            aborted = new Aborted(data);
            next = from;
        }

        private void all() {
            ByteBuffer bytes = records.buffer();
            int at = bytes.position();
            for (RecordBatch batch : records.batches()) {
                int end =
                    at + BatchFormat.LENGTH_OVERHEAD + bytes.getInt(at + BatchFormat.LENGTH_AT);
                if (batch.lastOffset() >= from) {
                    one(batch, bytes, at, end);
                }
                at = end;
            }
        }

        private void one(RecordBatch batch, ByteBuffer bytes, int at, int end) {
            boolean isOld = batch.magic() < RecordBatch.MAGIC_VALUE_V2;
            if (checksums && !isOld) {
                ensureValid(batch);
            }
            boolean isLeftOut = committed && aborted.holds(batch) || batch.isControlBatch();
            if (!isLeftOut) {
                ByteBuffer own =
                    isOld ? converted(batch) : bytes.duplicate().position(at).limit(end).slice();
                batches.add(new Batch(of, own, from));
                takenBytes += own.remaining();
            }
            next = batch.nextOffset();
            int leader = batch.partitionLeaderEpoch();
            epoch = leader < 0 ? Optional.empty() : Optional.of(leader);
        }

        private void ensureValid(RecordBatch batch) {
            try {
                batch.ensureValid();
            } catch (CorruptRecordException damaged) {
                throw new KafkaException(
                    "Record batch for partition " + of + " at offset " + batch.baseOffset()
                    + " is invalid, cause: " + damaged.getMessage());
            }
        }
    }

    /** A batch of message format 0 or 1 in format 2, with its offsets and timestamps. */
    private static ByteBuffer converted(RecordBatch batch) {
        List<Record> records = new ArrayList<>();
        int bytes = 0;
        for (Record each : batch) {
            each.ensureValid();
            records.add(each);
            bytes += each.sizeInBytes();
        }
        long first = records.isEmpty() ? batch.baseOffset() : records.get(0).offset();
        MemoryRecordsBuilder into = MemoryRecords.builder(
            ByteBuffer.allocate(2 * bytes + SPARE_BYTES),
            RecordBatch.MAGIC_VALUE_V2,
            Compression.NONE,
            TimestampType.CREATE_TIME,
            first);
        for (Record each : records) {
            into.appendWithOffset(
                each.offset(), each.timestamp(), each.key(), each.value(), each.headers());
        }
        return into.build().buffer().slice();
    }

    /** Which batches of a fetch belong to transactions that were aborted. */
    private static final class Aborted {
        private final PriorityQueue<AbortedTransaction> open =
            new PriorityQueue<>((a, b) -> Long.compare(a.firstOffset(), b.firstOffset()));
        private final Set<Long> producers = new HashSet<>();

        private Aborted(FetchResponseData.PartitionData data) {
            if (data.abortedTransactions() != null) {
                open.addAll(data.abortedTransactions());
            }
        }

        private boolean holds(RecordBatch batch) {
            if (!batch.hasProducerId()) {
                return false;
            }
            while (!open.isEmpty() && open.peek().firstOffset() <= batch.lastOffset()) {
                producers.add(open.poll().producerId());
            }
            if (batch.isControlBatch()) {
                if (isAbort(batch)) {
                    producers.remove(batch.producerId());
                }
                return true;
            }
            return batch.isTransactional() && producers.contains(batch.producerId());
        }

        private static boolean isAbort(RecordBatch marker) {
            for (Record each : marker) {
                return ControlRecordType.parse(each.key()) == ControlRecordType.ABORT;
            }
            return false;
        }
    }
}
