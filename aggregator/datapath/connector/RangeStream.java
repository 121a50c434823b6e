package aggregator.connector;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** What comes to some topics from now on, also to partitions that come later. For notebooks. */
final class RangeStream implements MicroBatchStream {
    /** Spark asks a hundred times a second whether there is anything. */
    private static final long ASK_NANOS = 200_000_000L;

    /** Log ends by partition. */
    private static final class Ends extends Offset {
        private final Map<TopicPartition, Long> at;

        private Ends(Map<TopicPartition, Long> at) {
            this.at = at;
        }

        @Override
        public String json() {
            ObjectNode node = JsonNodeFactory.instance.objectNode();
            at.forEach((tp, end) -> {
                node.withObjectProperty(tp.topic()).put(String.valueOf(tp.partition()), end);
            });
            return node.toString();
        }

        private static Ends of(String json) {
            Map<TopicPartition, Long> at = new HashMap<>();
            Json.parse(json).properties().forEach(topic -> {
                topic.getValue().properties().forEach(each -> {
                    int number = Integer.parseInt(each.getKey());
                    at.put(new TopicPartition(topic.getKey(), number), each.getValue().asLong());
                });
            });
            return new Ends(at);
        }
    }

    private final List<String> topics;
    private final HashMap<String, String> settings;
    private final String origins;
    private KafkaConsumer<byte[], byte[]> asked;
    private Ends latest;
    private long askedAt;

    RangeStream(List<String> topics, HashMap<String, String> settings, String origins) {
        this.topics = topics;
        this.settings = settings;
        this.origins = origins;
    }

    @Override
    public Offset initialOffset() {
        return latestOffset();
    }

    @Override
    public Offset latestOffset() {
        if (latest == null || System.nanoTime() - askedAt > ASK_NANOS) {
            if (asked == null) {
                asked = HubReader.consumer(settings);
            }
            Set<TopicPartition> all = new HashSet<>();
            topics.forEach(
                topic
                -> asked.partitionsFor(topic).forEach(
                    it -> all.add(new TopicPartition(topic, it.partition()))));
            latest = new Ends(asked.endOffsets(all));
            askedAt = System.nanoTime();
        }
        return latest;
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        Map<TopicPartition, Long> from = Ends.of(start.json()).at;
        List<InputPartition> found = new ArrayList<>();
        Ends.of(end.json()).at.forEach((tp, to) -> {
            long begin = from.getOrDefault(tp, 0L);
            if (begin < to) {
                long[] bounds = {begin, to};
                found.add(new RangeSource.Range(
                    tp.topic(), tp.partition(), bounds, settings, origins, false));
            }
        });
        return found.toArray(new InputPartition[0]);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new RangeSource.Readers();
    }

    @Override
    public Offset deserializeOffset(String json) {
        return Ends.of(json);
    }

    @Override
    public void commit(Offset end) {
        // Where it is, the query's own checkpoint knows.
    }

    @Override
    public void stop() {
        if (asked != null) {
            asked.close();
        }
    }
}
