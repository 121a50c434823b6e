package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Offset ranges of one cluster as a Spark batch, or what comes as a stream of such batches, with a
 * task for each: as Spark's own Kafka source, which fails a whole read for one record whose
 * timestamp it cannot hold. Here that is null, and the exact number is in a column of its own.
 *
 * <p>Options: kafka.* as that source has them, and `read` in JSON: {"ranges": {topic: {partition:
 * [first, behind the last, ...]}}, "exact": true} fails where a log no longer holds all of it,
 * without `exact` what is there is read; or {"topics": [...], "since": millis or null} for what
 * there is when the read begins. A stream takes the topics alone, and begins at their ends. With
 * `origins`, as {@link PassedOrigins#of} takes them, records of batches that were copied as they
 * are come with the header of their origin. With "batches": true a row is a batch, see {@link
 * RangeBatches}: none comes with another kafka-clients than the pinned one.
 */
public final class RangeSource implements TableProvider {
    private static final String KAFKA = "kafka.";

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return schema(options);
    }

    private static StructType schema(Map<String, String> options) {
        return hasBatches(options) ? Columns.batches() : Columns.exact();
    }

    private static boolean hasBatches(Map<String, String> options) {
        return read(options).path("batches").asBoolean();
    }

    @Override
    public Table getTable(
        StructType schema, Transform[] partitioning, Map<String, String> options) {
        return new Ranges(options);
    }

    private static JsonNode read(Map<String, String> options) {
        return Json.parse(options.get("read"));
    }

    private static HashMap<String, String> consumer(Map<String, String> options) {
        HashMap<String, String> found = new HashMap<>();
        options.forEach((name, value) -> {
            if (name.startsWith(KAFKA)) {
                found.put(name.substring(KAFKA.length()), value);
            }
        });
        found.put("enable.auto.commit", "false");
        // No reset to where a log begins now: what was deleted would be skipped silently.
        found.put("auto.offset.reset", "none");
        return found;
    }

    /**
     * Parts of a log as [from, to, ...), how to read them, and what {@link PassedOrigins#of} takes;
     * "" for no origins.
     */
    record Range(
        String topic,
        int partition,
        long[] bounds,
        HashMap<String, String> consumer,
        String origins,
        boolean hasBatches) implements InputPartition {
        private static final long serialVersionUID = 1L;

        /** Null for no origins. */
        PassedOrigins known() {
            return origins.isEmpty() ? null : PassedOrigins.of(Json.parse(origins));
        }
    }

    private static String origins(Map<String, String> options) {
        return options.getOrDefault("origins", "");
    }

    private record Ranges(Map<String, String> options) implements SupportsRead {
        @Override
        public String name() {
            return "ranges";
        }

        @Override
        public StructType schema() {
            return RangeSource.schema(options);
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
            return () -> new Scan() {
                @Override
                public StructType readSchema() {
                    return schema();
                }

                @Override
                public String description() {
                    // Spark shows it: nothing of the options, where secrets are.
                    return "offset ranges of Kafka";
                }

                @Override
                public Batch toBatch() {
                    return new Planned(options);
                }

                @Override
                public MicroBatchStream toMicroBatchStream(String checkpoint) {
                    List<String> topics = new ArrayList<>();
                    read(options).path("topics").forEach(each -> topics.add(each.asText()));
                    return new RangeStream(topics, consumer(options), origins(options));
                }

                @Override
                public ColumnarSupportMode columnarSupportMode() {
                    return ColumnarSupportMode.UNSUPPORTED;
                }
            };
        }
    }

    private static final class Planned implements Batch {
        private final JsonNode read;
        private final String origins;
        private final HashMap<String, String> consumer;
        private final boolean hasBatches;

        private Planned(Map<String, String> options) {
            read = read(options);
            hasBatches = hasBatches(options);
            consumer = consumer(options);
            origins = origins(options);
        }

        @Override
        public InputPartition[] planInputPartitions() {
            if (hasBatches && !KafkaShape.misfit().isEmpty()) {
                return new InputPartition[0];
            }
            Map<TopicPartition, long[]> ranges = new HashMap<>();
            read.path("ranges").properties().forEach(
                topic -> topic.getValue().properties().forEach(each -> {
                    int number = Integer.parseInt(each.getKey());
                    long[] bounds = new long[each.getValue().size()];
                    for (int i = 0; i < bounds.length; i++) {
                        bounds[i] = each.getValue().get(i).asLong();
                    }
                    if (bounds.length > 0) {
                        ranges.put(new TopicPartition(topic.getKey(), number), bounds);
                    }
                }));
            if (!read.path("exact").asBoolean()) {
                try (KafkaConsumer<byte[], byte[]> asked = HubReader.consumer(consumer)) {
                    read.path("topics").forEach(topic -> whole(asked, topic.asText(), ranges));
                    clamp(asked, ranges);
                }
            }
            List<InputPartition> found = new ArrayList<>();
            ranges.forEach((tp, it) -> {
                if (it[0] < it[1]) {
                    found.add(
                        new Range(tp.topic(), tp.partition(), it, consumer, origins, hasBatches));
                }
            });
            return found.toArray(new InputPartition[0]);
        }

        private static void whole(
            KafkaConsumer<byte[], byte[]> asked, String topic, Map<TopicPartition, long[]> into) {
            asked.partitionsFor(topic).forEach(
                it
                -> into.put(
                    new TopicPartition(topic, it.partition()), new long[] {0, Long.MAX_VALUE}));
        }

        /** What exists of these ranges, and of that what is new enough. */
        private void clamp(
            KafkaConsumer<byte[], byte[]> asked, Map<TopicPartition, long[]> ranges) {
            Set<TopicPartition> all = new HashSet<>(ranges.keySet());
            Map<TopicPartition, Long> begins = asked.beginningOffsets(all);
            Map<TopicPartition, Long> ends = asked.endOffsets(all);
            Map<TopicPartition, OffsetAndTimestamp> times = new HashMap<>();
            boolean byTime = read.path("since").isNumber();
            if (byTime) {
                Map<TopicPartition, Long> since = new HashMap<>();
                all.forEach(tp -> since.put(tp, read.get("since").asLong()));
                times.putAll(asked.offsetsForTimes(since));
            }
            ranges.forEach((tp, it) -> {
                it[0] = Math.max(it[0], begins.get(tp));
                it[1] = Math.min(it[1], ends.get(tp));
                if (byTime) {
                    OffsetAndTimestamp first = times.get(tp);
                    it[0] = first == null ? it[1] : Math.max(it[0], first.offset());
                }
            });
        }

        @Override
        public PartitionReaderFactory createReaderFactory() {
            return new Readers();
        }
    }

    static final class Readers implements PartitionReaderFactory {
        private static final long serialVersionUID = 1L;

        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            Range range = (Range) partition;
            return range.hasBatches() ? new RangeBatches(range) : new RangeRecords(range);
        }
    }
}
