package aggregator.connector;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.internals.BatchCollector;
import org.apache.kafka.clients.consumer.internals.FetchSight;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Makes the Kafka clients of a task: its consumers, all of one cluster, and its producers. */
final class TaskClients implements SourceConsumer.Consumers {
    private final TaskSpec spec;
    private final boolean areBytes;
    private final SameCluster values;

    /**
     * `areBytes`: what the consumers fetch is read as bytes. `misfit`: why batches cannot be
     * reached, as {@link KafkaShape#misfit} says it. IllegalStateException where records that have
     * an origin would not be known by it.
     */
    TaskClients(TaskSpec spec, boolean areBytes, String misfit) {
        if (spec.origin.anyOrigin && !misfit.isEmpty()) {
            throw new IllegalStateException(
                "hub.known_as has '*', and batches of " + spec.cluster
                + " that were copied as they are (topics.copy_as: batches), and so have an"
                + " origin, cannot be distinguished: " + misfit
                + ". Remove the other kafka-clients from the class path, as of spark.jars");
        }
        this.spec = spec;
        this.areBytes = areBytes;
        values = new SameCluster(spec.clusterId);
    }

    /** A producer with these settings. */
    Producer<byte[], byte[]> producer(Map<String, String> given) {
        ByteArraySerializer asItIs = new ByteArraySerializer();
        Map<String, Object> settings = settings(given);
        Producer<byte[], byte[]> made = new KafkaProducer<>(settings, asItIs, asItIs);
        FatalErrors.watchProducer(settings.get("client.id").toString());
        return made;
    }

    @Override
    public Consumer<byte[], byte[]> open(Map<String, String> given) {
        values.opened();
        return new KafkaConsumer<>(settings(given), new ByteArrayDeserializer(), values);
    }

    @Override
    public Fetched reader(Consumer<byte[], byte[]> consumer) {
        if (!areBytes && !spec.origin.anyOrigin) {
            return new Fetched.Objects();
        }
        try {
            return new Fetched.Bytes(BatchCollector.into(consumer), spec.origin.anyOrigin);
        } catch (ReflectiveOperationException another) {
            throw new IllegalStateException(HubBatches.ANOTHER_CLIENT, another);
        }
    }

    @Override
    public LogEnds.Sight sight(Consumer<byte[], byte[]> consumer) {
        if (!KafkaShape.misfit().isEmpty()) {
            return null;
        }
        try {
            return FetchSight.of(consumer);
        } catch (ReflectiveOperationException another) {
            throw new IllegalStateException(HubBatches.ANOTHER_CLIENT, another);
        }
    }

    @Override
    public String stranger() {
        return values.stranger();
    }

    /** A name of its own for each client: none appears in the metrics of another one. */
    private Map<String, Object> settings(Map<String, String> given) {
        Map<String, Object> settings = new HashMap<>(given);
        settings.putIfAbsent("client.id", "aggregator-" + spec.name);
        return settings;
    }
}
