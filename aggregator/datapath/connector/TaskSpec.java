package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Base64;
import java.util.BitSet;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * All that one task of a lane needs, as plain values: made on the driver out of what Python says,
 * and sent to wherever the task runs. Offsets are NEXT offsets everywhere.
 */
final class TaskSpec implements Serializable {
    private static final long serialVersionUID = 1L;

    /** One source partition: where it is read from, and what of it is left out. */
    static final class Part implements Serializable {
        private static final long serialVersionUID = 1L;
        final String topic;
        final int partition;
        final Route route;
        final long position;
        /** Nothing at or beyond this offset is read; Long.MAX_VALUE for an endless reader. */
        final long until;
        /** Offsets that the hub holds already. */
        final SkipSet skip;
        /**
         * Of a compacted hub topic: by partition, keys (as in {@link SkipSet#key}) and their newest
         * offset there.
         */
        final Map<Integer, Map<String, Long>> later = new HashMap<>();

        Part(JsonNode json, Map<Integer, Route> routes) {
            topic = json.get("topic").asText();
            partition = json.get("partition").asInt();
            route = routes.get(routeOf(json));
            position = json.get("position").asLong();
            until = json.path("until").asLong(Long.MAX_VALUE);
            skip = SkipSet.of(json.path("skip"));
            for (JsonNode place : json.path("later")) {
                if (!place.get(0).asText().equals(route.hubTopic)) {
                    continue;
                }
                Map<String, Long> keys =
                    later.computeIfAbsent(group(place.get(1).asInt()), at -> new HashMap<>());
                place.get(2).forEach(
                    k -> keys.merge(latin(k.get(0).asText()), k.get(1).asLong(), Math::max));
            }
        }

        /**
         * Whether a record that the hub lacks may have been compacted away there: written again it
         * would replace its successor. Key and hub partition are those that it would have there.
         */
        boolean isReplaced(byte[] key, int hubPartition, long offset) {
            if (later.isEmpty() || key == null || offset >= skip.top()) {
                return false;
            }
            Long newest = later.getOrDefault(group(hubPartition), Map.of()).get(SkipSet.key(key));
            return newest != null && newest > offset;
        }

        /** Compaction is of one partition. A key that keeps to one has moved if the topic grew. */
        private int group(int hubPartition) {
            return route.placement.spreadsKeys() ? hubPartition : 0;
        }

        /** As the driver's commands and reports name it, within its cluster. */
        String name() {
            return topic + "/" + partition;
        }

        private static String latin(String base64) {
            return SkipSet.key(Base64.getDecoder().decode(base64));
        }
    }

    /** Where the records of a source topic go, and what its hub topic refuses. */
    static final class Route implements Serializable {
        private static final long serialVersionUID = 1L;
        final String hubTopic;
        final int hubPartitions;
        final Placement placement;
        final Limits limits;
        /** The topic of records that would be refused; empty: its partition stops there. */
        final String quarantine;
        final int quarantineBytes;
        /** Whether the origin of its records is one header. */
        final boolean compact;
        /** Whether schema ids are looked up: a record whose id is unknown is not sent so. */
        final boolean checkSchemas;
        /** Whether they become those of the hub, too. */
        final boolean translateSchemas;
        /** By what its events are to come once; null where they may come as often as they do. */
        final EventRule events;
        /** The largest record that the topic of the dropped ones takes. */
        final int duplicateBytes;
        /** The largest batch that goes as it is; 0 where none does. */
        final int batchBytes;
        /** Index of the hub topic's partition 0 among all places of the task. */
        final int firstPlace;

        Route(JsonNode json, int firstPlace) {
            hubTopic = json.get("hub_topic").asText();
            hubPartitions = json.get("hub_partitions").asInt();
            placement =
                Placement.of(json.get("by").asText(), hubPartitions, json.path("fixed").asInt());
            limits = Limits.of(json.path("limits"));
            quarantine = json.path("quarantine").asText("");
            quarantineBytes = json.path("quarantine_bytes").asInt();
            compact = json.path("compact").asBoolean();
            translateSchemas = json.path("schemas").asText().equals("translate");
            checkSchemas = translateSchemas || json.path("schemas").asText().equals("check");
            events = EventRule.of(json.path("dedup"));
            duplicateBytes = json.path("dedup").path("bytes").asInt();
            batchBytes = json.path("batch_bytes").asInt();
            this.firstPlace = firstPlace;
        }
    }

    final String lane;
    final long generation;
    final String key;
    final String name;
    final int reading;
    final int task;
    /** The number of the newest hub snapshot when the lane was started. */
    final long snapshot;
    final String cluster;
    /** The id that this cluster had when the positions were planned. */
    final String clusterId;
    final Map<String, String> consumer;
    final Map<String, String> producer;
    /** Of the producer for batches that have numbers of a producer, and are not as old as these. */
    final Map<String, String> numbered;
    /** Of the producer for records whose age may be more than `freshMs` when they are sent. */
    final Map<String, String> careful;
    final long freshMs;
    /** Hub topics whose brokers compress again what they are sent. */
    final Set<String> recompressed = new LinkedHashSet<>();
    final List<Part> parts = new ArrayList<>();
    final Origin origin;
    final List<String> quarantineHeaders = new ArrayList<>();
    /** The header for what an origin in one does not say, and the topic's own time is not. */
    final String quarantineTimestamp;
    /** Whether the sink takes records as they were read, and not out of the rows. */
    final boolean plain;
    /** Why they do not go from batch to batch as bytes; empty where they may. */
    final String objects;
    /** Hub partitions that it may write to, by their index: topic and partition. */
    final List<String> placeTopics = new ArrayList<>();
    final List<Integer> placePartitions = new ArrayList<>();
    final int quarantinePlace;
    final int duplicatesPlace;

    TaskSpec(JsonNode lane, int reading, int task) {
        this.lane = lane.get("lane").asText();
        this.generation = lane.get("generation").asLong();
        this.snapshot = lane.get("snapshot").asLong();
        this.reading = reading;
        this.task = task;
        key = key(lane);
        name = key + "-" + reading + "-" + task;
        JsonNode own = lane.get("readings").get(reading);
        cluster = own.get("cluster").asText();
        clusterId = own.get("cluster_id").asText();
        plain = own.get("plain").asBoolean();
        boolean isBytes = lane.path("path").asText().equals("bytes");
        objects = !isBytes ? "stream.path is objects" : plain ? "" : "a transform reads them";
        consumer = Json.texts(own.get("consumer"));
        producer = Json.texts(lane.get("producer"));
        numbered = Json.texts(lane.path("numbered"));
        careful = Json.texts(lane.path("careful"));
        freshMs = lane.path("fresh_ms").asLong(Long.MAX_VALUE);
        lane.path("recompressed").forEach(topic -> recompressed.add(topic.asText()));
        origin = new Origin(lane.get("origin"), cluster);
        int quarantinePartition = lane.path("quarantine").path("partition").asInt();
        lane.path("quarantine").path("headers").forEach(n -> quarantineHeaders.add(n.asText()));
        quarantineTimestamp = lane.path("quarantine").path("timestamp").asText();
        List<JsonNode> read = new ArrayList<>();
        own.get("tasks").get(task).forEach(i -> read.add(own.get("partitions").get(i.asInt())));
        Set<Integer> used = new TreeSet<>();
        read.forEach(json -> used.add(routeOf(json)));
        Map<Integer, Route> routes = routes(lane.get("routes"), used);
        read.forEach(json -> parts.add(new Part(json, routes)));
        quarantinePlace = placeTopics.size();
        placeTopics.add(lane.path("quarantine").path("topic").asText(""));
        placePartitions.add(quarantinePartition);
        duplicatesPlace = placeTopics.size();
        placeTopics.add(lane.path("duplicates").asText(""));
        placePartitions.add(quarantinePartition);
    }

    /** The lane's life that a spec is of, as the driver names it. */
    static String key(JsonNode lane) {
        return lane.get("key").asText();
    }

    /** Where the records of its partitions go. */
    Set<String> hubTopics() {
        Set<String> found = new LinkedHashSet<>();
        parts.forEach(part -> found.add(part.route.hubTopic));
        return found;
    }

    /** Some of its partitions, as people read them, with their cluster. */
    List<String> names(BitSet some) {
        return some.stream()
            .mapToObj(parts::get)
            .map(part -> cluster + "/" + part.topic + "-" + part.partition)
            .toList();
    }

    private static int routeOf(JsonNode part) {
        return part.get("route").asInt();
    }

    /**
     * The routes that its partitions use, by their numbers in the lane. Those of one hub topic
     * share its places. The other routes get none: each place costs a task memory and looks.
     */
    private Map<Integer, Route> routes(JsonNode json, Set<Integer> used) {
        Map<String, Integer> first = new HashMap<>();
        Map<Integer, Route> routes = new HashMap<>();
        for (int number : used) {
            JsonNode each = json.get(number);
            String topic = each.get("hub_topic").asText();
            if (!first.containsKey(topic)) {
                first.put(topic, placeTopics.size());
                for (int p = 0; p < each.get("hub_partitions").asInt(); p++) {
                    placeTopics.add(topic);
                    placePartitions.add(p);
                }
            }
            routes.put(number, new Route(each, first.get(topic)));
        }
        return routes;
    }
}
