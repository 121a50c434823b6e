package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * The {@link Claims} of all hub topics of this JVM, and what Python calls for them: it keeps them
 * in a table, and has the hub read for what the table does not have. All tasks are in this JVM.
 */
public final class Dedup {
    private static final Map<String, Claims> TOPICS = new ConcurrentHashMap<>();
    /** How long a request of a task that is gone may be in flight. */
    private static final long SETTLED_NANOS = 3_000_000_000L;
    /** A broker that hung carries out what it was sent before when it answers again. */
    private static final long LATER_MS = 1_000;
    /** As a rule all replicas have a record sooner; else the other hub topics are not to wait. */
    private static final long SHOWN_NANOS = 1_000_000_000L;
    private static final long SLICE_MS = 20;

    private static volatile boolean cancelled;

    private Dedup() {}

    /** Nothing is known of an earlier Spark context of this JVM any more. */
    static void reset() {
        TOPICS.clear();
        cancelled = false;
    }

    /** A task will send by this route: the claims to go by, null for none. */
    static Claims opened(TaskSpec.Route route) {
        return TOPICS.compute(route.hubTopic, (topic, known) -> {
            // What is sent without claims is not in them: they start over after it.
            boolean same = known != null && known.rule.equals(route.events);
            return same ? known : route.events == null ? null : new Claims(route.events);
        });
    }

    /**
     * [{"topic", "by", "window_ms", "ready", "blocked", "uncertain", "events", "bytes"}, ...].
     * Blocked: a task still sends by another rule, so what the hub holds is not to be read yet.
     */
    public static String stand() {
        ArrayNode all = JsonNodeFactory.instance.arrayNode();
        TOPICS.forEach((topic, claims) -> {
            long[] size = claims.size();
            all.addObject()
                .put("topic", topic)
                .put("by", claims.rule.by())
                .put("window_ms", claims.rule.windowMs())
                .put("ready", claims.isReady())
                .put("blocked", !claims.isReady() && isBlocked(topic, claims))
                .put("uncertain", claims.uncertain(System.nanoTime() - SETTLED_NANOS))
                .put("events", size[0])
                .put("bytes", size[1]);
        });
        return all.toString();
    }

    /**
     * Reads what the hub topic holds: {"topic", "by", "consumer", "origin", "millis", "ends":
     * [offset of partition 0, ...]}. From the ends on that are given or else, at first, for as long
     * as the window is by the records' timestamps; later from where everything is known. Answers
     * {"read", "released", "remade", "ends"}; `remade`: the ends that were given are of an earlier
     * topic of this name. Throws what the clients throw, and IllegalStateException while leaders
     * hold records that the hub does not show: what they are about is not known yet.
     */
    public static String read(String spec) throws Exception {
        JsonNode json = Json.parse(spec);
        String topic = json.get("topic").asText();
        Claims claims = claims(topic, json.get("by").asText());
        Map<String, String> settings = Json.texts(json.get("consumer"));
        boolean first = !claims.isReady();
        long settled = System.nanoTime() - SETTLED_NANOS;
        long nowMs = DriverClock.now();
        Map<Integer, Long> known = new HashMap<>();
        for (JsonNode end : json.get("ends")) {
            known.put(known.size(), end.asLong());
        }
        if (!first) {
            long[] covered = claims.covered();
            for (int i = 0; i < covered.length; i++) {
                known.put(i, covered[i]);
            }
        }
        Map<TopicPartition, long[]> ranges = new HashMap<>();
        long[] ends;
        boolean byTime = first && known.isEmpty();
        boolean remade = false;
        try (KafkaConsumer<byte[], byte[]> hub = HubReader.consumer(settings)) {
            List<TopicPartition> all = new ArrayList<>();
            for (PartitionInfo each : hub.partitionsFor(topic)) {
                all.add(new TopicPartition(topic, each.partition()));
            }
            long millis = json.get("millis").asLong();
            Map<TopicPartition, Long> held = leaders(settings, all, millis);
            if (!first) {
                Thread.sleep(LATER_MS);
                held = leaders(settings, all, millis);
            }
            Map<TopicPartition, Long> earliest = hub.beginningOffsets(all);
            Map<TopicPartition, Long> last = shown(hub, topic, held);
            ends = new long[all.size()];
            for (TopicPartition tp : all) {
                ends[tp.partition()] = last.get(tp);
                remade |= known.getOrDefault(tp.partition(), 0L) > last.get(tp);
            }
            byTime |= remade;
            Map<TopicPartition, Long> since = new HashMap<>();
            all.forEach(tp -> since.put(tp, nowMs - claims.rule.windowMs()));
            Map<TopicPartition, OffsetAndTimestamp> begins =
                byTime ? hub.offsetsForTimes(since) : Map.of();
            for (TopicPartition tp : all) {
                OffsetAndTimestamp begin = begins.get(tp);
                long from = !byTime
                    ? Math.max(known.getOrDefault(tp.partition(), 0L), earliest.get(tp))
                    : begin == null ? last.get(tp)
                                    : begin.offset();
                if (from < last.get(tp)) {
                    ranges.put(tp, new long[] {from, last.get(tp)});
                }
            }
        }
        OriginReader origins = new OriginReader(json.get("origin"));
        EventHash hash = new EventHash();
        boolean aged = byTime;
        long read = HubReader.read(
            settings,
            ranges,
            ()
                -> cancelled,
            (tp, record) -> take(claims, record, origins, hash, aged, nowMs));
        int released = first ? 0 : claims.release(settled);
        ObjectNode answer = JsonNodeFactory.instance.objectNode();
        ArrayNode list = answer.putArray("ends");
        for (long end : ends) {
            list.add(end);
        }
        return answer.put("read", read).put("released", released).put("remade", remade).toString();
    }

    /** No events of this hub topic are known any more: records wait until `begin`. */
    public static void forget(String topic, String by) {
        claims(topic, by).forget();
    }

    /** Takes events that the table holds; see {@link Claims#load}. */
    public static void load(String topic, String by, byte[] rows) {
        claims(topic, by).load(rows, DriverClock.now());
    }

    /** All is known that the hub held below these ends: [offset of partition 0, ...]. */
    public static void begin(String topic, String by, String ends) {
        JsonNode json = Json.parse(ends);
        long[] found = new long[json.size()];
        for (int i = 0; i < found.length; i++) {
            found[i] = json.get(i).asLong();
        }
        claims(topic, by).begin(found);
    }

    /** The hub ends below which all events are held by now, as `begin` takes them. */
    public static String covered(String topic, String by) {
        ArrayNode list = JsonNodeFactory.instance.arrayNode();
        for (long end : claims(topic, by).covered()) {
            list.add(end);
        }
        return list.toString();
    }

    /** Events that the table lacks; some of them if they are many. See {@link Claims#fresh}. */
    public static byte[] fresh(String topic, String by) {
        return claims(topic, by).fresh();
    }

    /** Whether there were more than `fresh` listed last. */
    public static boolean more(String topic, String by) {
        return claims(topic, by).hasMore();
    }

    /** What `fresh` listed last is in the table. */
    public static void kept(String topic, String by) {
        claims(topic, by).kept();
    }

    /** Ends a `read` that is under way, and each one to come. */
    public static void cancel() {
        cancelled = true;
    }

    private static Map<TopicPartition, Long> leaders(
        Map<String, String> settings, List<TopicPartition> all, long millis) throws Exception {
        Map<TopicPartition, Long> held = new HashMap<>();
        // A leader that keeps no epochs does not report them.
        all.forEach(tp -> held.put(tp, 0L));
        held.putAll(HubEnds.read(settings, all, System.nanoTime() + millis * 1_000_000));
        return held;
    }

    /** The ends up to which the hub can be read, once all can be that its leaders held. */
    private static Map<TopicPartition, Long> shown(
        KafkaConsumer<byte[], byte[]> hub, String topic, Map<TopicPartition, Long> held)
        throws InterruptedException {
        long until = System.nanoTime() + SHOWN_NANOS;
        while (true) {
            Map<TopicPartition, Long> shown = hub.endOffsets(held.keySet());
            if (held.keySet().stream().allMatch(tp -> held.get(tp) <= shown.get(tp))) {
                return shown;
            }
            if (System.nanoTime() > until) {
                throw new IllegalStateException(
                    "it holds records of " + topic
                    + " that not all replicas have, and does not show them: is a broker away?");
            }
            Thread.sleep(SLICE_MS);
        }
    }

    private static void take(
        Claims claims,
        ConsumerRecord<byte[], byte[]> record,
        OriginReader origins,
        EventHash hash,
        boolean aged,
        long nowMs) {
        byte[] id = origins.read(record.headers()) == null
            ? null
            : claims.rule.id(record.key(), record.value(), record.headers());
        if (id != null) {
            // When it arrived is unknown: not later than now, and hardly before its own time.
            long oldest = nowMs - claims.rule.windowMs() + 1_000;
            long since = aged ? Math.min(nowMs, Math.max(record.timestamp(), oldest)) : nowMs;
            claims.found(hash.of(id), since, nowMs);
        }
    }

    private static boolean isBlocked(String topic, Claims claims) {
        return LaneTask.open().stream().anyMatch(task -> task.sendsWithout(claims, topic));
    }

    private static Claims claims(String topic, String by) {
        Claims found = TOPICS.get(topic);
        if (found == null || !found.rule.by().equals(by)) {
            throw new IllegalStateException("no events of hub topic " + topic + " are looked at");
        }
        return found;
    }
}
