package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Prints what the tasks of a spec get, for tests/unit/test_connector_spec.py. */
final class PrintSpec {
    private PrintSpec() {}

    public static void main(String[] args) throws IOException {
        JsonNode lane = Json.parse(new String(System.in.readAllBytes(), StandardCharsets.UTF_8));
        for (int reading = 0; reading < lane.get("readings").size(); reading++) {
            int tasks = lane.get("readings").get(reading).get("tasks").size();
            for (int task = 0; task < tasks; task++) {
                print(new TaskSpec(lane, reading, task));
            }
        }
    }

    private static void print(TaskSpec spec) {
        System.out.println(
            spec.name + " of " + spec.cluster + " (" + spec.clusterId + ")"
            + (spec.plain ? " plain" : "") + " knows " + spec.snapshot + ", reads with "
            + spec.consumer + ", writes with " + spec.producer + ", quarantines in "
            + spec.placeTopics.get(spec.quarantinePlace) + "/"
            + spec.placePartitions.get(spec.quarantinePlace) + " as " + spec.quarantineHeaders);
        for (TaskSpec.Part part : spec.parts) {
            String until = part.until == Long.MAX_VALUE ? "" : " until " + part.until;
            int place = part.route.firstPlace + part.route.placement.of(null, part.partition, 0L);
            System.out.println(
                "  " + part.name() + " from " + part.position + until + " without "
                + offsets(part.skip) + keys(part.later.getOrDefault(0, Map.of())) + ", to "
                + spec.placeTopics.get(place) + "/" + spec.placePartitions.get(place) + " of "
                + part.route.hubPartitions + ", else to '" + part.route.quarantine + "' ("
                + part.route.quarantineBytes + ")"
                + (part.route.compact ? ", from in one header" : ""));
        }
    }

    private static List<Long> offsets(SkipSet skip) {
        List<Long> found = new ArrayList<>();
        for (long offset = 0; offset < skip.top(); offset++) {
            if (skip.contains(offset)) {
                found.add(offset);
            }
        }
        return found;
    }

    private static Map<String, Long> keys(Map<String, Long> later) {
        Map<String, Long> found = new TreeMap<>();
        later.forEach((key, offset) -> {
            byte[] bytes = key.getBytes(StandardCharsets.ISO_8859_1);
            found.put(HexFormat.of().formatHex(bytes), offset);
        });
        return found;
    }
}
