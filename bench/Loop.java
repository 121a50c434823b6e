import java.io.FileInputStream;
import java.time.Duration;
import java.util.ArrayList;
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
 * Usage: java Loop.java TOPIC PRODUCER.properties CONSUMER.properties...; a thread per source.
 */
public final class Loop {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[0];
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(
                        load(arguments[1]), new ByteArraySerializer(), new ByteArraySerializer());
        Runtime.getRuntime().addShutdownHook(new Thread(producer::close));
        for (int at = 2; at < arguments.length; at++) {
            Properties settings = load(arguments[at]);
            new Thread(() -> copy(topic, settings, producer)).start();
        }
    }

    private static void copy(
            String topic, Properties settings, KafkaProducer<byte[], byte[]> producer) {
        KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(
                        settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        List<TopicPartition> partitions = new ArrayList<>();
        for (PartitionInfo info : consumer.partitionsFor(topic)) {
            partitions.add(new TopicPartition(topic, info.partition()));
        }
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        while (true) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
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

    private static Properties load(String file) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream stream = new FileInputStream(file)) {
            settings.load(stream);
        }
        return settings;
    }
}
