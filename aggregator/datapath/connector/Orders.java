package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * What the driver wants of the tasks of one life of a lane, as a whole each time: whether they are
 * to end, which source partitions they leave out (cluster -> names), how fast each may read, and
 * what their schema ids are at the hub.
 */
final class Orders {
    static final Orders NONE = new Orders(null);

    final boolean end;
    private final Map<String, Set<String>> held = new HashMap<>();
    private final Map<String, double[]> rates = new HashMap<>();
    private final Map<String, SchemaIds> schemas = new HashMap<>();

    private Orders(JsonNode json) {
        end = json != null && json.path("end").asBoolean();
        if (json != null) {
            json.path("held").properties().forEach(e -> {
                Set<String> names = held.computeIfAbsent(e.getKey(), c -> new HashSet<>());
                e.getValue().forEach(name -> names.add(name.asText()));
            });
            json.path("schemas").properties().forEach(
                e -> schemas.put(e.getKey(), new SchemaIds(e.getValue())));
            json.path("rates").properties().forEach(
                e
                -> rates.put(
                    e.getKey(),
                    new double[] {
                        e.getValue().path(0).asDouble(Double.POSITIVE_INFINITY),
                        e.getValue().path(1).asDouble(Double.POSITIVE_INFINITY)}));
        }
    }

    /**
     * Out of {"end": true, "held": {cluster: ["topic/0"]}, "rates": {"reading-task": [10, null]},
     * "schemas": {cluster: as in {@link SchemaIds}}}.
     */
    static Orders of(String json) {
        return json.isEmpty() ? NONE : new Orders(Json.parse(json));
    }

    Set<String> held(TaskSpec spec) {
        return held.getOrDefault(spec.cluster, Set.of());
    }

    SchemaIds schemas(TaskSpec spec) {
        return schemas.getOrDefault(spec.cluster, SchemaIds.NONE);
    }

    /** Records per second; infinity without a limit. */
    double records(TaskSpec spec) {
        return rate(spec, 0);
    }

    /** Bytes of keys and values per second; infinity without a limit. */
    double bytes(TaskSpec spec) {
        return rate(spec, 1);
    }

    private double rate(TaskSpec spec, int kind) {
        double[] found = rates.get(spec.reading + "-" + spec.task);
        return found == null ? Double.POSITIVE_INFINITY : found[kind];
    }
}
