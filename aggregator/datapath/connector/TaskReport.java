package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/**
 * What a task reports at one moment: its report point, and what its parts count. Values alone, so
 * that two of them can be compared.
 *
 * <p>`plain` are all fields but the large ones: positions by part, numbers of {@link Topics}, and
 * hub ends by place, 0 where nothing was written.
 */
record TaskReport(
    TaskSpec spec, Topics topics, ObjectNode plain, long[] positions, long[] sent, long[] ends) {
    /** A report of which more than an eighth has changed goes as a whole. */
    private static final int SHARE = 8;

    /** The topics of a task's parts, and four numbers of each: what was sent, and its claims. */
    static final class Topics {
        private static final int NUMBERS = 4;

        final String[] names;
        /** The topic of each part. */
        private final int[] of;

        Topics(TaskSpec spec) {
            Map<String, Integer> found = new LinkedHashMap<>();
            of = new int[spec.parts.size()];
            for (int i = 0; i < of.length; i++) {
                of[i] = found.computeIfAbsent(spec.parts.get(i).topic, name -> found.size());
            }
            names = found.keySet().toArray(new String[0]);
        }

        /** Records and bytes that were sent, records that were dropped, and those without id. */
        long[] sent(TaskCounts counts, Gate gate) {
            long[] sums = new long[NUMBERS * names.length];
            for (int i = 0; i < of.length; i++) {
                int at = NUMBERS * of[i];
                sums[at] += counts.records[i];
                sums[at + 1] += counts.bytes[i];
                gate.count(i, sums, at + 2);
            }
            return sums;
        }
    }

    static TaskReport of(
        TaskSpec spec, Topics topics, Feed feed, Points.Point point, TaskCounts counts, Gate gate) {
        ObjectNode json = named(spec);
        json.put("cluster", spec.cluster);
        json.put("point", point.number()).put("at", point.atMs());
        json.put("snapshot", point.snapshot());
        addStates(json, spec, feed, point);
        json.put("error", feed.error()).put("read_bytes", feed.bytes);
        json.put("skipped", feed.skipped);
        json.put("replayed", counts.replayed).put("looped", counts.looped + feed.looped);
        json.set("age", counts.age.json());
        json.set("flight", counts.flight.json());
        long[] sent = topics.sent(counts, gate);
        return new TaskReport(spec, topics, json, point.positions(), sent, point.ends());
    }

    private static ObjectNode named(TaskSpec spec) {
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        json.put("lane", spec.lane).put("generation", spec.generation);
        return json.put("reading", spec.reading).put("task", spec.task);
    }

    /** What there is to say of partitions that are not being read. */
    private static void addStates(ObjectNode json, TaskSpec spec, Feed feed, Points.Point point) {
        boolean skipping = false;
        ObjectNode states = json.putObject("states");
        ObjectNode reasons = json.putObject("reasons");
        ObjectNode cuts = json.putObject("cuts");
        for (int i = 0; i < spec.parts.size(); i++) {
            TaskSpec.Part part = spec.parts.get(i);
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

    /** All of it, as JSON for the driver. No other report has the same `number`. */
    ObjectNode whole(long number) {
        ObjectNode json = plain.deepCopy().put("number", number);
        json.set("positions", positions(changes(positions, null, 1)));
        json.set("topics", topics(changes(sent, null, Topics.NUMBERS)));
        json.set("ends", ends(changes(ends, new long[ends.length], 1)));
        return json;
    }

    /**
     * What differs from an earlier report of the same task, which the driver has got by its number;
     * null where that is much. Of the large fields only what has changed, and no others that have
     * not. It has all that was changed since, so it makes those between the two superfluous.
     */
    ObjectNode since(TaskReport base, long number) {
        BitSet moved = changes(positions, base.positions, 1);
        BitSet counted = changes(sent, base.sent, Topics.NUMBERS);
        BitSet places = changes(ends, base.ends, 1);
        int all = positions.length + topics.names.length + ends.length;
        int changed = moved.cardinality() + counted.cardinality() + places.cardinality();
        ObjectNode json = named(spec).put("base", number);
        for (Map.Entry<String, JsonNode> field : plain.properties()) {
            all += field.getValue().size();
            if (!field.getValue().equals(base.plain.get(field.getKey()))) {
                json.set(field.getKey(), field.getValue());
                changed += field.getValue().size();
            }
        }
        if (changed > all / SHARE) {
            return null;
        }
        if (!moved.isEmpty()) {
            json.set("positions", positions(moved));
        }
        if (!counted.isEmpty()) {
            json.set("topics", topics(counted));
        }
        if (!places.isEmpty()) {
            json.set("ends", ends(places));
        }
        return json;
    }

    /** Which groups of this size differ; all of them where there is nothing to compare. */
    private static BitSet changes(long[] now, long[] before, int group) {
        BitSet found = new BitSet(now.length / group);
        for (int i = 0; i < now.length; i++) {
            if (before == null || now[i] != before[i]) {
                found.set(i / group);
            }
        }
        return found;
    }

    private ObjectNode positions(BitSet parts) {
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        parts.stream().forEach(at -> json.put(spec.parts.get(at).name(), positions[at]));
        return json;
    }

    private ObjectNode topics(BitSet some) {
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        some.stream().forEach(at -> {
            ArrayNode numbers = json.putArray(topics.names[at]);
            for (int i = 0; i < Topics.NUMBERS; i++) {
                numbers.add(sent[Topics.NUMBERS * at + i]);
            }
        });
        return json;
    }

    private ArrayNode ends(BitSet places) {
        ArrayNode json = JsonNodeFactory.instance.arrayNode();
        places.stream().forEach(at -> {
            ArrayNode end = json.addArray();
            end.add(spec.placeTopics.get(at)).add(spec.placePartitions.get(at)).add(ends[at]);
        });
        return json;
    }
}
