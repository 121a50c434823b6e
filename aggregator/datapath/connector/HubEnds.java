package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;

/**
 * Finds where the logs of hub partitions end at their leaders, which may be beyond what all
 * replicas have and consumers can read. Called from Python, on the driver.
 *
 * <p>No client asks for that by itself. But a leader reports it to a consumer that claims to have
 * read further, in the leader's own epoch: it takes that for a log that was cut off.
 */
public final class HubEnds {
    private static final Duration POLL = Duration.ofMillis(50);
    /** When some leaders have answered, the others are given this long after each answer. */
    private static final long LATER_NANOS = 1_000_000_000L;
    private static final long SLICE_MS = 5;
    private static final long BEYOND = Long.MAX_VALUE - 1;

    private HubEnds() {}

    /**
     * Reads {"consumer": {...}, "partitions": [[topic, partition], ...], "millis": n}. Answers
     * [[topic, partition, end], ...], with null for an end whose leader does not answer in time,
     * and without partitions whose leader keeps no epochs. Throws what the clients throw, when
     * nothing is answered.
     */
    public static String read(String spec) throws Exception {
        JsonNode json = Json.parse(spec);
        List<TopicPartition> wanted = new ArrayList<>();
        json.get("partitions").forEach(p -> wanted.add(partition(p)));
        return text(answers(Json.texts(json.get("consumer")), wanted, until(json)));
    }

    /**
     * Reads {"consumer": {...}, "partitions": [[topic, partition, offset], ...], "millis": n}.
     * Answers [[topic, partition, start], ...]: the last offset up to that one from which on a
     * leader has written in an epoch of its own; null where it does not answer in time, and without
     * partitions whose leaders say of no epoch that it began so early. Throws as `read` does.
     */
    public static String starts(String spec) throws Exception {
        JsonNode json = Json.parse(spec);
        Map<String, String> settings = Json.texts(json.get("consumer"));
        long until = until(json);
        Map<TopicPartition, Long> offsets = new HashMap<>();
        json.get("partitions").forEach(p -> offsets.put(partition(p), p.get(2).asLong()));
        Map<TopicPartition, Long> found = new HashMap<>();
        Map<TopicPartition, OffsetAndMetadata> asked = new HashMap<>();
        beyond(settings, offsets.keySet(), found, until)
            .forEach((tp, place) -> askBefore(asked, tp, place));
        try (KafkaConsumer<byte[], byte[]> hub = HubReader.consumer(settings)) {
            while (!asked.isEmpty()) {
                Map<TopicPartition, Optional<OffsetAndMetadata>> answered =
                    differences(hub, asked, until);
                asked.keySet().forEach(tp -> {
                    if (!answered.containsKey(tp)) {
                        found.put(tp, null);
                    }
                });
                asked.clear();
                // Where an epoch ends, the next one begins.
                answered.forEach((tp, end) -> end.ifPresent(it -> {
                    if (it.offset() <= offsets.get(tp)) {
                        found.put(tp, it.offset());
                    } else {
                        askBefore(asked, tp, it);
                    }
                }));
            }
        }
        return text(found);
    }

    /** Asks for the end of the epoch before that of a place. */
    private static void askBefore(
        Map<TopicPartition, OffsetAndMetadata> asked, TopicPartition tp, OffsetAndMetadata place) {
        place.leaderEpoch()
            .filter(epoch -> epoch > 0)
            .ifPresent(
                epoch -> asked.put(tp, new OffsetAndMetadata(BEYOND, Optional.of(epoch - 1), "")));
    }

    private static long until(JsonNode json) {
        return System.nanoTime() + json.get("millis").asLong() * 1_000_000L;
    }

    private static TopicPartition partition(JsonNode json) {
        return new TopicPartition(json.get(0).asText(), json.get(1).asInt());
    }

    private static String text(Map<TopicPartition, Long> found) {
        ArrayNode answer = JsonNodeFactory.instance.arrayNode();
        found.forEach((tp, at) -> answer.addArray().add(tp.topic()).add(tp.partition()).add(at));
        return answer.toString();
    }

    /**
     * The same for Java, until this moment of `System.nanoTime`; TimeoutException if one is late.
     */
    static Map<TopicPartition, Long> read(
        Map<String, String> settings, Collection<TopicPartition> wanted, long until)
        throws Exception {
        Map<TopicPartition, Long> found = answers(settings, wanted, until);
        if (found.containsValue(null)) {
            throw new TimeoutException("leaders of the hub do not report where their logs end");
        }
        return found;
    }

    private static Map<TopicPartition, Long> answers(
        Map<String, String> settings, Collection<TopicPartition> wanted, long until)
        throws Exception {
        Map<TopicPartition, Long> found = new HashMap<>();
        Map<TopicPartition, OffsetAndMetadata> beyond = beyond(settings, wanted, found, until);
        found.putAll(ends(settings, beyond, until));
        return found;
    }

    /**
     * A place that no log has, in the epoch that the leader of each partition is in. Those whose
     * leader does not answer are put into `silent`.
     */
    private static Map<TopicPartition, OffsetAndMetadata> beyond(
        Map<String, String> settings,
        Collection<TopicPartition> wanted,
        Map<TopicPartition, Long> silent,
        long until) throws Exception {
        Map<TopicPartition, OffsetSpec> latest = new HashMap<>();
        wanted.forEach(tp -> latest.put(tp, OffsetSpec.latest()));
        Map<TopicPartition, OffsetAndMetadata> beyond = new HashMap<>();
        Admin admin = Admin.create(new HashMap<>(settings));
        try {
            ListOffsetsResult asked = admin.listOffsets(latest);
            Set<TopicPartition> left = new HashSet<>(wanted);
            long limit = until;
            while (!left.isEmpty() && System.nanoTime() < limit) {
                List<TopicPartition> done =
                    left.stream().filter(tp -> asked.partitionResult(tp).isDone()).toList();
                for (TopicPartition tp : done) {
                    if (asked.partitionResult(tp).isCompletedExceptionally()) {
                        silent.put(tp, null);
                    } else {
                        asked.partitionResult(tp).get().leaderEpoch().ifPresent(
                            epoch
                            -> beyond.put(
                                tp, new OffsetAndMetadata(BEYOND, Optional.of(epoch), "")));
                        limit = later(until);
                    }
                    left.remove(tp);
                }
                Thread.sleep(SLICE_MS);
            }
            left.forEach(tp -> silent.put(tp, null));
            if (!wanted.isEmpty() && silent.size() == latest.size()) {
                // None has answered: this throws why.
                asked.all().get(Math.max(0, until - System.nanoTime()), TimeUnit.NANOSECONDS);
            }
            return beyond;
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof Exception cause ? cause : failed;
        } finally {
            admin.close(Duration.ZERO);
        }
    }

    private static long later(long until) {
        return Math.min(until, System.nanoTime() + LATER_NANOS);
    }

    /** Where the logs end, null for those whose leader does not answer. */
    private static Map<TopicPartition, Long> ends(
        Map<String, String> settings, Map<TopicPartition, OffsetAndMetadata> beyond, long until) {
        Map<TopicPartition, Long> ends = new HashMap<>();
        try (KafkaConsumer<byte[], byte[]> hub = HubReader.consumer(settings)) {
            Map<TopicPartition, Optional<OffsetAndMetadata>> found =
                differences(hub, beyond, until);
            beyond.keySet()
                .stream()
                .filter(tp -> !found.containsKey(tp))
                .forEach(tp -> ends.put(tp, null));
            found.forEach((tp, end) -> end.ifPresent(it -> ends.put(tp, it.offset())));
        }
        return ends;
    }

    /**
     * What leaders say to one that claims to be at these places: where the epoch of the place ends
     * with them, and which one it is; nothing where they know none. Without those that are late.
     */
    private static Map<TopicPartition, Optional<OffsetAndMetadata>> differences(
        KafkaConsumer<byte[], byte[]> hub,
        Map<TopicPartition, OffsetAndMetadata> places,
        long until) {
        Map<TopicPartition, OffsetAndMetadata> left = new HashMap<>(places);
        Map<TopicPartition, Optional<OffsetAndMetadata>> found = new HashMap<>();
        long limit = until;
        while (!left.isEmpty() && System.nanoTime() < limit) {
            hub.assign(left.keySet());
            // Again for those that are left: a broker's answer is reported once.
            left.forEach(hub::seek);
            Map<TopicPartition, Optional<OffsetAndMetadata>> answered = answersOf(hub, limit);
            found.putAll(answered);
            left.keySet().removeAll(answered.keySet());
            limit = answered.isEmpty() ? limit : later(until);
        }
        return found;
    }

    /** What leaders have answered by now: nothing when it is late. */
    private static Map<TopicPartition, Optional<OffsetAndMetadata>> answersOf(
        KafkaConsumer<byte[], byte[]> hub, long until) {
        while (System.nanoTime() < until) {
            try {
                hub.poll(POLL);
            } catch (OffsetOutOfRangeException error) {
                Map<TopicPartition, Optional<OffsetAndMetadata>> answered = new HashMap<>();
                error.offsetOutOfRangePartitions().keySet().forEach(
                    tp -> answered.put(tp, Optional.empty()));
                if (error instanceof LogTruncationException cut) {
                    cut.divergentOffsets().forEach((tp, end) -> answered.put(tp, Optional.of(end)));
                }
                return answered;
            }
        }
        return Map.of();
    }
}
