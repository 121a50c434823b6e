package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;

/** Task specs for tests, as aggregator/datapath/connector/spec.py renders them. */
final class Specs {
    static final String ORIGIN = """
        {"names": ["origin.cluster", "origin.topic", "origin.partition", "origin.offset",
                   "origin.timestamp"],
         "compact": "origin",
         "hub_names": ["hub", "høb"]}
        """;

    private Specs() {}

    /**
     * Task 1 of reading 1, of cluster "eu", with these partitions: each is JSON without its braces
     * and route, and with ' for ".
     */
    static TaskSpec task(String... partitions) {
        return task(1, 1, partitions);
    }

    /** The same of reading 0, of cluster "us", or 1, of cluster "eu", and of task 0 or 1. */
    static TaskSpec task(int reading, int task, String... partitions) {
        return task("key", reading, task, partitions);
    }

    /** Task 1 of reading 1, whose records go to hub partitions by this rule. */
    static TaskSpec by(String rule, String... partitions) {
        return task(rule, 1, 1, partitions);
    }

    private static TaskSpec task(String rule, int reading, int task, String... partitions) {
        StringBuilder parts = new StringBuilder();
        StringBuilder numbers = new StringBuilder();
        for (int i = 0; i < partitions.length; i++) {
            String comma = i == 0 ? "" : ", ";
            parts.append(comma).append("{'route': 0, ").append(partitions[i]).append('}');
            numbers.append(comma).append(i);
        }
        String own =
            "'cluster_id': 'an-id', 'plain': true, 'consumer': {'client.id': 'a'}, 'tasks': [["
            + numbers + "], [" + numbers + "]], 'partitions': [" + parts + "]}";
        return new TaskSpec(lane(rule, own), reading, task);
    }

    /** A task of ten partitions with these producers; its places are those of `hub.orders`. */
    static TaskSpec writing(Map<String, String> usual, Map<String, String> careful, long freshMs) {
        String numbers = "0, 1, 2, 3, 4, 5, 6, 7, 8, 9";
        String part = "{'route': 0, 'topic': 'orders', 'position': 0, 'partition': ";
        ObjectNode lane = (ObjectNode) lane(
            "key",
            "'cluster_id': 'an-id', 'plain': true, 'consumer': {}, 'tasks': [[" + numbers
                + "]], 'partitions': [" + part + numbers.replace(", ", "}, " + part) + "}]}");
        usual.forEach(lane.putObject("producer")::put);
        lane.putObject("numbered").put("client.id", "numbered");
        careful.forEach(lane.putObject("careful")::put);
        lane.put("fresh_ms", freshMs);
        return new TaskSpec(lane, 0, 0);
    }

    /** A task of cluster "eu" that copies batches of this size as they are; limits of its topic. */
    static TaskSpec copying(int batchBytes, String limits, String part) {
        String own =
            "'cluster_id': 'an-id', 'plain': true, 'consumer': {}, 'tasks': [[0]], 'partitions':"
            + " [{'route': 0, " + part + "}]}";
        ObjectNode lane = (ObjectNode) lane("source_partition", own);
        lane.putObject("numbered").put("enable.idempotence", "false");
        ObjectNode route = (ObjectNode) lane.get("routes").get(0);
        route.put("batch_bytes", batchBytes).set("limits", json("{" + limits + "}"));
        return new TaskSpec(lane, 1, 0);
    }

    /** A task of cluster "eu" to a hub that wants nothing that has an origin. */
    static TaskSpec withAnyOrigin(String part) {
        String own =
            "'cluster_id': 'an-id', 'plain': true, 'consumer': {}, 'tasks': [[0]], 'partitions':"
            + " [{'route': 0, " + part + "}]}";
        ObjectNode lane = (ObjectNode) lane("key", own);
        ((ArrayNode) lane.get("origin").get("hub_names")).add("*");
        return new TaskSpec(lane, 1, 0);
    }

    /**
     * A task with a partition for each of `used`, the numbers of their routes. There is a route
     * for each of the hub topics, which are named after their numbers of partitions.
     */
    static TaskSpec routed(List<Integer> hubTopics, int... used) {
        ObjectNode lane = (ObjectNode) lane("key", "'cluster_id': 'an-id', 'plain': true}");
        lane.put("duplicates", "hub.twice");
        ((ObjectNode) lane.get("quarantine")).put("topic", "hub.refused").put("partition", 0);
        ArrayNode routes = lane.putArray("routes");
        hubTopics.forEach(
            count
            -> routes.add(json(
                "{'hub_topic': 'hub." + count + "', 'hub_partitions': " + count
                + ", 'by': 'source_partition', 'fixed': 0}")));
        ObjectNode own = (ObjectNode) lane.get("readings").get(1);
        own.putObject("consumer");
        ArrayNode numbers = own.putArray("tasks").addArray();
        ArrayNode parts = own.putArray("partitions");
        // What another task reads comes before it.
        parts.add(json("{'route': 0, 'topic': 'other', 'position': 0, 'partition': 0}"));
        for (int i = 0; i < used.length; i++) {
            numbers.add(i + 1);
            ObjectNode part = parts.addObject().put("route", used[i]).put("topic", "t" + i);
            part.put("position", 0).put("partition", 1);
        }
        return new TaskSpec(lane, 1, 0);
    }

    private static JsonNode lane(String rule, String own) {
        String lane =
            "{'key': 'eu#3', 'lane': 'eu', 'generation': 3, 'snapshot': 0, 'producer': {},"
            + "'quarantine': {}, 'routes': [{'hub_topic': 'hub.orders', 'hub_partitions': 4,"
            + "'by': '" + rule + "', 'fixed': 2}], 'origin': " + ORIGIN + ", 'readings': ["
            + "{'cluster': 'us', " + own + ", {'cluster': 'eu', " + own + "]}";
        return json(lane);
    }

    static JsonNode json(String text) {
        return Json.parse(text.replace('\'', '"'));
    }

    static JsonNode origin() {
        return Json.parse(ORIGIN);
    }
}
