import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Reads a topic of several clusters and writes it into a hub, and does nothing else: no positions
 * are kept, nothing is recovered, added or supervised. The limit of what a copier could reach.
 *
 * Usage: java Loop.java [--origin] TOPIC PRODUCER.properties CONSUMER.properties...; a thread per
 * source. With --origin each record gets five headers that say where it is from, named by the file.
 */
public final class Loop {
    public static void main(String[] given) throws Exception {
        boolean origin = given[0].equals("--origin");
        String[] arguments = origin ? Arrays.copyOfRange(given, 1, given.length) : given;
        String topic = arguments[0];
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
            load(arguments[1]), new ByteArraySerializer(), new ByteArraySerializer());
        Runtime.getRuntime().addShutdownHook(new Thread(producer::close));
        for (int at = 2; at < arguments.length; at++) {
            Properties settings = load(arguments[at]);
            String name = Path.of(arguments[at]).getFileName().toString();
            byte[] cluster = origin ? text(name.substring(0, name.indexOf('.'))) : null;
            new Thread(() -> copy(topic, settings, producer, cluster)).start();
        }
    }

    private static void copy(
        String topic, Properties settings, KafkaProducer<byte[], byte[]> producer, byte[] cluster) {
        byte[] topicText = text(topic);
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        List<TopicPartition> partitions = new ArrayList<>();
        for (PartitionInfo info : consumer.partitionsFor(topic)) {
            partitions.add(new TopicPartition(topic, info.partition()));
        }
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        while (true) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                if (cluster != null) {
                    record.headers()
                        .add("origin.cluster", cluster)
                        .add("origin.topic", topicText)
                        .add("origin.partition", text(String.valueOf(record.partition())))
                        .add("origin.offset", text(String.valueOf(record.offset())))
                        .add("origin.timestamp", text(String.valueOf(record.timestamp())));
                }
                producer.send(
                    new ProducerRecord<>(
                        topic,
                        null,
                        record.timestamp(),
                        record.key(),
                        record.value(),
                        record.headers()),
                    (metadata, error) -> {
                        if (error != null) {
                            error.printStackTrace();
                            Runtime.getRuntime().halt(1);
                        }
                    });
            }
        }
    }

    private static byte[] text(String words) {
        return words.getBytes(StandardCharsets.UTF_8);
    }

    private static Properties load(String file) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream stream = new FileInputStream(file)) {
            settings.load(stream);
        }
        return settings;
    }
}
