package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Reads the hub's tail and returns which origins it holds at or beyond given positions: a bit for
 * each offset, so that whole topics fit. Called from Python, on the driver.
 */
public final class HubTail {
    /** Of one source partition: what is known of it, and what was found. */
    private static final class Part {
        long position;
        final Map<TopicPartition, Long> above = new HashMap<>();
        final Offsets found = new Offsets();
        /** Of compacted hub partitions: each key, and the highest offset of it that was found. */
        final Map<TopicPartition, Map<String, Long>> later = new HashMap<>();
        final Samples samples = new Samples();
    }

    private final Map<String, String> consumer;
    private final OriginReader reader;
    private final PassedOrigins origins;
    private final Map<OriginReader.Place, Part> parts = new HashMap<>();
    private final Set<String> compacted = new HashSet<>();
    /** Topics that cannot be read, and why. */
    private final Map<String, String> unread = new ConcurrentHashMap<>();

    private HubTail(JsonNode json) {
        consumer = Json.texts(json.get("consumer"));
        reader = new OriginReader(json.get("origin"));
        origins = new PassedOrigins(json.get("origin").get("compact").asText());
        json.get("compacted").forEach(name -> compacted.add(name.asText()));
        for (JsonNode each : json.get("positions")) {
            Part part = new Part();
            part.position = each.get(3).asLong();
            each.get(4).forEach(a -> part.above.put(tp(a), a.get(2).asLong()));
            parts.put(
                new OriginReader.Place(
                    each.get(0).asText(), each.get(1).asText(), each.get(2).asInt()),
                part);
            origins.know(each.get(0).asText(), each.get(1).asText(), each.get(2).asInt());
        }
    }

    /**
     * Reads {"ranges": [[topic, partition, from, to], ...]} with as many consumers as "threads"
     * says. Answers {"read": n, "found": n, "partitions": [[cluster, topic, partition, [[from, to],
     * ...], [[hub topic, hub partition, [[key, offset], ...]], ...], samples], ...], "unread":
     * {topic: reason, ...}}, the samples as {@link Samples#addTo} has them. Throws what a consumer
     * throws, and CancellationException once {@code cancelled} is set.
     */
    public static String read(String spec, AtomicBoolean cancelled) throws Exception {
        JsonNode json = Json.parse(spec);
        HubTail tail = new HubTail(json);
        List<Map<TopicPartition, long[]>> hands = new ArrayList<>();
        int threads = Math.max(1, Math.min(json.get("threads").asInt(), json.get("ranges").size()));
        for (int i = 0; i < threads; i++) {
            hands.add(new HashMap<>());
        }
        int next = 0;
        for (JsonNode range : json.get("ranges")) {
            long[] bounds = {range.get(2).asLong(), range.get(3).asLong()};
            hands.get(next++ % threads).put(tp(range), bounds);
        }
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Callable<Long>> jobs = new ArrayList<>();
            hands.forEach(
                hand
                -> jobs.add(
                    ()
                        -> HubReader.read(
                            ()
                                -> HubReader.consumer(tail.consumer),
                            hand,
                            cancelled::get,
                            tail::take,
                            tail.unread,
                            tail.origins)));
            long read = 0;
            for (Future<Long> done : pool.invokeAll(jobs)) {
                read += done.get();
            }
            return tail.answer(read);
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof Exception cause ? cause : failed;
        } finally {
            pool.shutdownNow();
        }
    }

    private void take(TopicPartition tp, ConsumerRecord<byte[], byte[]> record) {
        OriginReader.Origin origin = reader.read(record.headers());
        if (origin == null) {
            return;
        }
        Part part = parts.get(origin.place());
        if (part == null || origin.offset() < part.position
            || record.offset() < part.above.getOrDefault(tp, 0L)) {
            return;
        }
        synchronized (part) {
            part.found.add(origin.offset());
            part.samples.add(origin.offset(), record, reader);
            if (record.key() != null && compacted.contains(tp.topic())) {
                part.later.computeIfAbsent(tp, name -> new HashMap<>())
                    .merge(SkipSet.key(record.key()), origin.offset(), Math::max);
            }
        }
    }

    private String answer(long read) {
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        long found = 0;
        ObjectNode left = json.putObject("unread");
        unread.forEach(left::put);
        ArrayNode all = json.putArray("partitions");
        for (Map.Entry<OriginReader.Place, Part> each : parts.entrySet()) {
            Part part = each.getValue();
            if (part.found.count() == 0) {
                continue;
            }
            found += part.found.count();
            ArrayNode row = all.addArray();
            OriginReader.Place place = each.getKey();
            row.add(place.cluster()).add(place.topic()).add(place.partition());
            ArrayNode ranges = row.addArray();
            part.found.ranges().forEach(range -> ranges.addArray().add(range[0]).add(range[1]));
            ArrayNode later = row.addArray();
            part.later.forEach((tp, offsets) -> {
                ArrayNode keys = later.addArray().add(tp.topic()).add(tp.partition()).addArray();
                offsets.forEach((key, offset) -> keys.addArray().add(base64(key)).add(offset));
            });
            part.samples.addTo(row.addArray());
        }
        return json.put("read", read).put("found", found).toString();
    }

    private static String base64(String key) {
        return Base64.getEncoder().encodeToString(
            key.getBytes(java.nio.charset.StandardCharsets.ISO_8859_1));
    }

    private static TopicPartition tp(JsonNode json) {
        return new TopicPartition(json.get(0).asText(), json.get(1).asInt());
    }
}
