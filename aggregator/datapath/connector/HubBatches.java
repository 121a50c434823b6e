package aggregator.connector;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.internals.BatchDoor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.CompressionType;

/**
 * The batches that a task has begun, at most one for a hub partition. A batch is handed to the
 * {@link HubWriter} when it is full, and when the task says that nothing more is at hand.
 *
 * <p>Used by the task's thread.
 */
final class HubBatches {
    static final String ANOTHER_CLIENT =
        "kafka-clients is not the version that stream.path: bytes is made for: set stream.path:"
        + " objects";

    private final TaskSpec spec;
    private final HubWriter hub;
    private final Compression compression;
    private final int most;
    private final BatchBuilder.Spares spares = new BatchBuilder.Spares();
    private final BatchBuilder[] builders;
    private final Delivery[] deliveries;
    /** Of batches that are read back before they are sent. */
    private final BatchSample[] samples;
    private long number;
    private final TopicPartition[] names;
    private final ArrayDeque<Integer> begun = new ArrayDeque<>();
    private final Map<Producer<byte[], byte[]>, BatchDoor> doors = new WeakHashMap<>();

    HubBatches(TaskSpec spec, HubWriter hub) {
        this.spec = spec;
        this.hub = hub;
        compression = compression(spec.producer);
        most = Integer.parseInt(spec.producer.getOrDefault("batch.size", "16384"));
        int places = spec.placeTopics.size();
        builders = new BatchBuilder[places];
        deliveries = new Delivery[places];
        samples = new BatchSample[places];
        names = new TopicPartition[places];
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
        int place, BatchCursor cursor, long timestamp, OriginBytes origin, Deliveries begin) {
        int size = cursor.end - cursor.keyLengthAt + origin.size();
        Delivery delivery = delivery(place, size, begin);
        builders[place].append(cursor, timestamp, origin);
        if (samples[place] != null) {
            RecordHeaders headers = cursor.headers();
            origin.tag.append(headers, cursor.offset, cursor.timestamp);
            samples[place].add(timestamp, cursor.key(), cursor.value(), headers);
        }
        return delivery;
    }

    /** The same for a record whose parts are objects; its headers hold its origin. */
    Delivery append(
        int place, long timestamp, byte[] key, byte[] value, Headers headers, Deliveries begin) {
        Delivery delivery = delivery(place, Limits.batchBytes(key, value, headers), begin);
        builders[place].append(timestamp, key, value, headers);
        if (samples[place] != null) {
            samples[place].add(timestamp, key, value, headers);
        }
        return delivery;
    }

    private Delivery delivery(int place, int size, Deliveries begin) {
        BatchBuilder builder = builders[place];
        if (builder == null) {
            builder = new BatchBuilder(spares);
            builders[place] = builder;
        }
        if (!builder.isEmpty() && builder.size() + size + BatchBuilder.RECORD_OVERHEAD > most) {
            hand(place);
            begun.remove(place);
        }
        if (builder.isEmpty()) {
            deliveries[place] = begin.begin(place);
            samples[place] = number++ % BatchSample.EVERY == 0 ? new BatchSample() : null;
            begun.add(place);
        }
        return deliveries[place];
    }

    /** Hands over all that was begun. */
    void flush() {
        while (!begun.isEmpty()) {
            hand(begun.remove());
        }
    }

    private void hand(int place) {
        BatchBuilder.Batch batch = builders[place].finish(compression);
        if (samples[place] != null) {
            samples[place].check(batch.bytes());
            samples[place] = null;
        }
        TopicPartition to = names[place];
        if (to == null) {
            to = new TopicPartition(spec.placeTopics.get(place), spec.placePartitions.get(place));
            names[place] = to;
        }
        WriteGuard.await();
        hub.send(place, new Load(this, to, batch), batch.oldest(), deliveries[place]);
        deliveries[place] = null;
    }

    /** A batch for one hub partition. */
    private record Load(HubBatches of, TopicPartition to, BatchBuilder.Batch batch)
        implements HubWriter.Load {
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
                door.send(to, batch.bytes(), batch.count(), sent);
            } catch (ReflectiveOperationException another) {
                throw new IllegalStateException(ANOTHER_CLIENT, another);
            }
        }
    }

    /** As the producer's settings say, with the level of its codec. */
    static Compression compression(Map<String, String> producer) {
        Map<String, String> given = new HashMap<>(producer);
        CompressionType type =
            CompressionType.forName(given.getOrDefault("compression.type", "none"));
        String level = given.get("compression." + type.name + ".level");
        if (level == null) {
            return Compression.of(type).build();
        }
        int number = Integer.parseInt(level.trim());
        return switch (type) {
            case GZIP -> Compression.gzip().level(number).build();
            case LZ4 -> Compression.lz4().level(number).build();
            case ZSTD -> Compression.zstd().level(number).build();
            default -> Compression.of(type).build();
        };
    }
}
