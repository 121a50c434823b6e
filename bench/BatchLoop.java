package aggregator.connector;

import java.io.FileInputStream;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.internals.BatchCollector;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.internals.BatchDoor;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Reads a topic of several clusters and writes it into a hub as the bytes of batches, with the
 * origin in five headers and keyed placement, and does nothing else: no positions, limits, recovery
 * or supervision. What the connector would reach if all around its byte path cost nothing.
 *
 * <p>With `--whole` it passes each batch on as it is, without its records' origins.
 *
 * <p>Usage: BatchLoop [--whole] TOPIC HUB_PARTITIONS PRODUCER.properties CONSUMER.properties...; a
 * thread and a producer per source, which is named by its file.
 */
public final class BatchLoop {
    private static final List<String> HEADERS = List.of(
        "origin.cluster", "origin.topic", "origin.partition", "origin.offset", "origin.timestamp");

    private final boolean isWhole;
    private final String topic;
    private final String cluster;
    private final Placement placement;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final BatchCollector fetched;
    private final KafkaProducer<byte[], byte[]> hub;
    private final BatchDoor door;
    private final BatchPacker packer;
    private final int batchBytes;
    private final Semaphore buffer;
    private final BatchCursor cursor = new BatchCursor();
    private final BatchBuilder[] open;
    private final CompressionEstimate estimate;
    private final Map<TopicPartition, OriginBytes> origins = new HashMap<>();

    private BatchLoop(
        boolean isWhole,
        String topic,
        int partitions,
        Properties producer,
        Properties source,
        String cluster) throws ReflectiveOperationException {
        this.isWhole = isWhole;
        this.topic = topic;
        this.cluster = cluster;
        placement = Placement.of("key", partitions, 0);
        consumer =
            new KafkaConsumer<>(source, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        fetched = BatchCollector.into(consumer);
        hub = new KafkaProducer<>(producer, new ByteArraySerializer(), new ByteArraySerializer());
        door = new BatchDoor(hub);
        Map<String, String> settings = new HashMap<>();
        producer.forEach((name, value) -> settings.put((String) name, (String) value));
        packer = new BatchPacker(settings);
        batchBytes = Integer.parseInt(settings.get("batch.size"));
        estimate = new CompressionEstimate(batchBytes);
        buffer = new Semaphore(Integer.parseInt(settings.get("buffer.memory")));
        open = new BatchBuilder[partitions];
        BatchBuilder.Spares spares = new BatchBuilder.Spares();
        for (int i = 0; i < partitions; i++) {
            open[i] = new BatchBuilder(spares);
        }
    }

    public static void main(String[] given) throws Exception {
        boolean isWhole = given[0].equals("--whole");
        int first = isWhole ? 1 : 0;
        for (int at = first + 3; at < given.length; at++) {
            String name = Path.of(given[at]).getFileName().toString();
            BatchLoop loop = new BatchLoop(
                isWhole,
                given[first],
                Integer.parseInt(given[first + 1]),
                load(given[first + 2]),
                load(given[at]),
                name.substring(0, name.indexOf('.')));
            new Thread(loop::copy).start();
        }
    }

    private void copy() {
        try {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo info : consumer.partitionsFor(topic)) {
                partitions.add(new TopicPartition(topic, info.partition()));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (true) {
                consumer.poll(Duration.ofMillis(500));
                BatchCollector.Batch batch;
                while ((batch = fetched.next()) != null) {
                    if (isWhole) {
                        pass(batch);
                    } else {
                        append(batch);
                    }
                }
                for (int to = 0; to < open.length; to++) {
                    send(to);
                }
            }
        } catch (ReflectiveOperationException | RuntimeException failed) {
            end(failed);
        }
    }

    private void pass(BatchCollector.Batch batch) throws ReflectiveOperationException {
        BatchHead head = BatchHead.of(batch.bytes());
        ByteBuffer own = packer.own(head.bytes());
        own.putLong(own.position(), 0);
        give(batch.partition().partition() % open.length, own, head.count());
    }

    private void append(BatchCollector.Batch batch) throws ReflectiveOperationException {
        TopicPartition of = batch.partition();
        OriginBytes origin = origins.computeIfAbsent(
            of, it -> new OriginBytes(HEADERS, cluster, topic, it.partition(), null));
        cursor.open(batch.bytes(), batch.from());
        while (cursor.next()) {
            int to = placement.of(
                cursor.bytes, cursor.keyAt, cursor.keyLength, of.partition(), cursor.offset);
            int size = cursor.end - cursor.keyLengthAt
                + origin.encode(cursor.offset, cursor.timestamp) + BatchBuilder.RECORD_OVERHEAD;
            if (open[to].size() + size > room()) {
                send(to);
            }
            open[to].append(cursor, cursor.timestamp, origin);
        }
    }

    private void send(int to) throws ReflectiveOperationException {
        if (open[to].isEmpty()) {
            return;
        }
        for (BatchBuilder.Batch batch : open[to].finish(packer, batchBytes)) {
            estimate.learn(batch.gathered(), batch.bytes().remaining());
            give(to, batch.bytes(), batch.count());
        }
    }

    private void give(int to, ByteBuffer batch, int count) throws ReflectiveOperationException {
        int bytes = batch.remaining();
        buffer.acquireUninterruptibly(bytes);
        TopicPartition name = new TopicPartition(topic, to);
        Callback done = (metadata, error) -> {
            buffer.release(bytes);
            if (error != null) {
                end(error);
            }
            packer.arrived(batch);
        };
        door.send(hub, name, batch, count, BatchDoor.State.NONE, done);
    }

    private int room() {
        return packer.type() == CompressionType.NONE ? batchBytes : estimate.room();
    }

    private static void end(Exception failed) {
        failed.printStackTrace();
        Runtime.getRuntime().halt(1);
    }

    private static Properties load(String file) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream stream = new FileInputStream(file)) {
            settings.load(stream);
        }
        return settings;
    }
}
