package aggregator.connector;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;

/** A report point of a task, and what its parts count, as JSON for the driver. By any thread. */
record TaskReport(TaskSpec spec, Feed feed, Points.Point point, TaskCounts counts, Gate gate) {
    ObjectNode json() {
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        json.put("lane", spec.lane).put("generation", spec.generation);
        json.put("reading", spec.reading).put("task", spec.task).put("cluster", spec.cluster);
        json.put("point", point.number()).put("at", point.atMs());
        json.put("snapshot", point.snapshot());
        addParts(json);
        addTopics(json);
        ArrayNode ends = json.putArray("ends");
        for (int i = 0; i < point.ends().length; i++) {
            if (point.ends()[i] > 0) {
                ends.addArray()
                    .add(spec.placeTopics.get(i))
                    .add(spec.placePartitions.get(i))
                    .add(point.ends()[i]);
            }
        }
        json.put("error", feed.error()).put("read_bytes", feed.bytes);
        json.put("skipped", feed.skipped);
        json.put("replayed", counts.replayed).put("looped", counts.looped + feed.looped);
        json.set("age", counts.age.json());
        json.set("flight", counts.flight.json());
        return json;
    }

    /** What there is to say of each partition. */
    private void addParts(ObjectNode json) {
        boolean skipping = false;
        ObjectNode positions = json.putObject("positions");
        ObjectNode states = json.putObject("states");
        ObjectNode reasons = json.putObject("reasons");
        ObjectNode cuts = json.putObject("cuts");
        for (int i = 0; i < spec.parts.size(); i++) {
            TaskSpec.Part part = spec.parts.get(i);
            positions.put(part.name(), point.positions()[i]);
            // No point waits for what is given up, but perhaps for others.
            Feed.State state =
                feed.states[i] == Feed.State.STUCK ? Feed.State.STUCK : point.states()[i];
            // Of what is given up nothing is committed any more.
            skipping |= state != Feed.State.STUCK && point.positions()[i] < part.skip.top();
            if (state != Feed.State.READING) {
                states.put(part.name(), state.name().toLowerCase(Locale.ROOT));
                if (feed.reasons[i] != null) {
                    reasons.put(part.name(), feed.reasons[i]);
                }
                if (feed.cuts[i] >= 0) {
                    cuts.put(part.name(), feed.cuts[i]);
                }
            }
        }
        json.put("skipping", skipping);
    }

    /** What was sent of each topic, and what its claims were. */
    private void addTopics(ObjectNode json) {
        Map<String, long[]> topics = new HashMap<>();
        for (int i = 0; i < spec.parts.size(); i++) {
            long[] sums = topics.computeIfAbsent(spec.parts.get(i).topic, name -> new long[4]);
            sums[0] += counts.records[i];
            sums[1] += counts.bytes[i];
            gate.count(i, sums, 2);
        }
        ObjectNode sent = json.putObject("topics");
        topics.forEach((name, sums) -> {
            ArrayNode numbers = sent.putArray(name);
            for (long sum : sums) {
                numbers.add(sum);
            }
        });
    }
}
