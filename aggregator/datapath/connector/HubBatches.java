package aggregator.connector;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.IntPredicate;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.internals.BatchDoor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.CompressionType;

/**
 * The batches that a task has begun, at most one for a hub partition. A batch is handed to the
 * {@link HubWriter} when it is full, and when the task says that nothing more is at hand. Then it
 * waits while its hub partition has as many requests under way as the producer sends at once,
 * though not for long: handed over it would wait as well, and grow no more. So under a steady load
 * requests have the records of a round trip, and not of one fetch each.
 *
 * <p>Full is a batch that is about to have `batch.size` bytes when it is compressed, by the
 * estimate of its topic. One that has more all the same becomes several.
 *
 * <p>Used by the task's thread.
 */
final class HubBatches {
    static final String ANOTHER_CLIENT =
        "kafka-clients is not the version that stream.path: bytes is made for: set stream.path:"
        + " objects";

    /** What is gathered for a hub partition. */
    private static final class Place {
        private final int number;
        private final TopicPartition name;
        private final BatchBuilder builder;
        /** Null where a batch gathers no more than it may have without compression. */
        private final CompressionEstimate estimate;
        private Delivery delivery;
        /** Of a batch that is read back before it is sent; null for others. */
        private BatchSample sample;

        private Place(
            int number, TopicPartition name, BatchBuilder builder, CompressionEstimate estimate) {
            this.number = number;
            this.name = name;
            this.builder = builder;
            this.estimate = estimate;
        }
    }

    /** A part of what the producer may buffer, as memory is dealt out to tasks by that. */
    private static final long GATHERED_PART = 4;
    /** How long a batch waits at most for the answer about one before it. */
    static final long WAIT_NANOS = 50_000_000;

    private final TaskSpec spec;
    private final Hub hub;
    private final IntPredicate isBusy;
    private final BatchPacker packer;
    private final int most;
    /** When all batches together have gathered this much, none gathers more than `batch.size`. */
    private final long mostGathered;
    private final BatchBuilder.Spares spares = new BatchBuilder.Spares();
    private final Place[] places;
    private final Map<String, CompressionEstimate> estimates = new HashMap<>();
    private long batches;
    private long gathered;
    private final ArrayDeque<Place> begun = new ArrayDeque<>();
    /** Whether some of them wait for an answer, and since when the first of them does. */
    private boolean isWaiting;
    private long waitsFrom;
    /** Of producers that may be in use: one that was closed is not kept by its door. */
    private final Map<Producer<byte[], byte[]>, BatchDoor> doors = new WeakHashMap<>();

    /** `isBusy`: whether a batch for a hub partition would have to wait in its producer. */
    HubBatches(TaskSpec spec, Hub hub, IntPredicate isBusy) {
        this.spec = spec;
        this.hub = hub;
        this.isBusy = isBusy;
        packer = new BatchPacker(spec.producer);
        most = (int) HubWriter.number(spec.producer, HubWriter.BATCH, HubWriter.BATCH_BYTES);
        mostGathered = HubWriter.number(spec.producer, HubWriter.BUFFER, HubWriter.BUFFER_BYTES)
            / GATHERED_PART;
        places = new Place[spec.placeTopics.size()];
    }

    /** Where finished batches go. */
    interface Hub {
        void send(int place, HubWriter.Load load, long timestamp, HubWriter.Sent sent);
    }

    /** Makes what is called when a batch has arrived; for its first record. */
    interface Deliveries {
        Delivery begin(int place);
    }

    /**
     * Appends the record that a cursor is at, with its origin. Returns what its batch is delivered
     * by.
     */
    Delivery append(
        int number, BatchCursor cursor, long timestamp, OriginBytes origin, Deliveries begin) {
        int size = cursor.end - cursor.keyLengthAt + origin.size();
        Place place = withRoom(number, size, begin);
        int before = place.builder.size();
        place.builder.append(cursor, timestamp, origin);
        gathered += place.builder.size() - before;
        if (place.sample != null) {
            RecordHeaders headers = cursor.headers();
            origin.tag.append(headers, cursor.offset, cursor.timestamp);
            place.sample.add(timestamp, cursor.key(), cursor.value(), headers);
        }
        return place.delivery;
    }

    /** The same for a record whose parts are objects; its headers hold its origin. */
    Delivery append(
        int number, long timestamp, byte[] key, byte[] value, Headers headers, Deliveries begin) {
        Place place = withRoom(number, Limits.batchBytes(key, value, headers), begin);
        int before = place.builder.size();
        place.builder.append(timestamp, key, value, headers);
        gathered += place.builder.size() - before;
        if (place.sample != null) {
            place.sample.add(timestamp, key, value, headers);
        }
        return place.delivery;
    }

    /**
     * Sends a fetched batch as it is, behind what was begun for its place, with the producer id
     * that names its source partition.
     */
    void pass(int number, BatchHead batch, long producerId, Delivery delivery) {
        Place place = places[number] == null ? open(number) : places[number];
        if (!place.builder.isEmpty()) {
            hand(place);
            begun.remove(place);
        }
        ByteBuffer own = packer.own(batch.bytes());
        own.putLong(own.position(), 0);
        BatchBuilder.Batch whole =
            new BatchBuilder.Batch(own, batch.count(), batch.newest(), batch.size());
        BatchDoor.State state = new BatchDoor.State(
            producerId, PassedOrigin.epoch(batch.first()), PassedOrigin.sequence(batch.first()));
        WriteGuard.await();
        hub.send(number, new Load(this, place.name, whole, state), batch.newest(), delivery);
    }

    /** The place of a hub partition, whose batch has been begun and has room for this record. */
    private Place withRoom(int number, int size, Deliveries begin) {
        Place place = places[number];
        if (place == null) {
            place = open(number);
        }
        BatchBuilder builder = place.builder;
        if (!builder.isEmpty()
            && builder.size() + size + BatchBuilder.RECORD_OVERHEAD > room(place)) {
            hand(place);
            begun.remove(place);
        }
        if (builder.isEmpty()) {
            place.delivery = begin.begin(number);
            place.sample = batches++ % BatchSample.EVERY == 0 ? new BatchSample() : null;
            begun.add(place);
        }
        return place;
    }

    private Place open(int number) {
        String topic = spec.placeTopics.get(number);
        boolean isPlain = packer.type() == CompressionType.NONE;
        // A broker that compresses them itself weighs what comes of that.
        CompressionEstimate estimate = isPlain || spec.recompressed.contains(topic)
            ? null
            : estimates.computeIfAbsent(topic, name -> new CompressionEstimate(most));
        TopicPartition name = new TopicPartition(topic, spec.placePartitions.get(number));
        places[number] = new Place(number, name, new BatchBuilder(spares), estimate);
        return places[number];
    }

    private int room(Place place) {
        boolean isMore = place.estimate != null && gathered < mostGathered;
        return isMore ? place.estimate.room() : most;
    }

    /**
     * Hands over what was begun for hub partitions that are not busy, and everything when one has
     * been waited for long enough. Returns whether some still waits.
     */
    boolean flushReady(long nanos) {
        if (isWaiting && nanos - waitsFrom >= WAIT_NANOS) {
            flush();
        }
        for (int left = begun.size(); left > 0; left--) {
            Place place = begun.remove();
            if (isBusy.test(place.number)) {
                begun.add(place);
            } else {
                hand(place);
            }
        }
        if (!isWaiting) {
            waitsFrom = nanos;
        }
        isWaiting = !begun.isEmpty();
        return isWaiting;
    }

    /** Hands over all that was begun. */
    void flush() {
        isWaiting = false;
        while (!begun.isEmpty()) {
            hand(begun.remove());
        }
    }

    private void hand(Place place) {
        gathered -= place.builder.size();
        List<BatchBuilder.Batch> all = place.builder.finish(packer, most);
        if (place.sample != null) {
            place.sample.check(all);
            place.sample = null;
        }
        Delivery whole = place.delivery;
        place.delivery = null;
        int from = 0;
        for (BatchBuilder.Batch each : all) {
            if (place.estimate != null) {
                place.estimate.learn(each.gathered(), each.bytes().remaining());
            }
            Delivery own = all.size() == 1 ? whole : whole.part(from, each.count());
            from += each.count();
            WriteGuard.await();
            hub.send(
                place.number,
                new Load(this, place.name, each, BatchDoor.State.NONE),
                each.oldest(),
                own);
        }
    }

    /** Frees what is not of Java's heap. Nothing is appended any more. */
    void close() {
        packer.close();
    }

    /** A batch for one hub partition. */
    record Load(HubBatches of, TopicPartition to, BatchBuilder.Batch batch, BatchDoor.State state)
        implements HubWriter.Load {
        @Override
        public boolean isNumbered() {
            return state != BatchDoor.State.NONE;
        }

        @Override
        public int bytes() {
            return batch.bytes().remaining();
        }

        @Override
        public boolean isOfProducersBuffer() {
            return false;
        }

        @Override
        public void handTo(Producer<byte[], byte[]> producer, HubWriter.Sent sent) {
            try {
                BatchDoor door = of.doors.get(producer);
                if (door == null) {
                    door = new BatchDoor(producer);
                    of.doors.put(producer, door);
                }
                Callback done = (metadata, error) -> {
                    if (error == null) {
                        of.packer.arrived(batch.bytes());
                    }
                    sent.onCompletion(metadata, error);
                };
                door.send(producer, to, batch.bytes(), batch.count(), state, done);
            } catch (ReflectiveOperationException another) {
                throw new IllegalStateException(ANOTHER_CLIENT, another);
            }
        }
    }
}
