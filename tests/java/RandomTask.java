package aggregator.connector;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Random;
import java.util.stream.IntStream;

/** A task of cluster "eu" whose numbers grow at random, as a few of its partitions have records. */
final class RandomTask {
    private static final int TOPICS = 10;
    private static final int PARTITIONS = 8;

    final TaskSpec spec;
    private final TaskReport.Topics topics;
    private final Random random;
    private final ObjectNode plain;
    private final long[] positions;
    private final long[] sent;
    private final long[] ends;
    /** Its places come before those of topics without a name, which nothing goes to. */
    private final int named;

    RandomTask(int task, Random random) {
        this.random = random;
        spec = Specs.task(
            1,
            task,
            IntStream.range(0, TOPICS * PARTITIONS)
                .mapToObj(
                    i -> "'position': 0, 'topic': 't/" + i / PARTITIONS + "', 'partition': " + i)
                .toArray(String[] ::new));
        topics = new TaskReport.Topics(spec);
        positions = new long[spec.parts.size()];
        sent = new long[4 * topics.names.length];
        ends = new long[spec.placeTopics.size()];
        named = (int) spec.placeTopics.stream().filter(topic -> !topic.isEmpty()).count();
        plain = (ObjectNode) Specs.json(
            "{'lane': 'eu', 'generation': 3, 'reading': 1, 'task': " + task + ", 'cluster': 'eu',"
            + "'point': 0, 'at': 0, 'snapshot': 0, 'states': {}, 'reasons': {}, 'cuts': {},"
            + "'error': '', 'read_bytes': 0, 'skipped': 0, 'replayed': 0, 'looped': 0,"
            + "'skipping': false, 'age': [0, 0], 'flight': [0, 0], 'objects': '', 'ended': false,"
            + "'retried': 0, 'unknown': []}");
    }

    /** A later moment: as a rule little has changed, or nothing; now and then much. */
    TaskReport next() {
        plain.put("point", plain.get("point").asLong() + random.nextInt(2));
        plain.put("snapshot", plain.get("snapshot").asLong() + random.nextInt(2));
        plain.put("error", random.nextInt(9) == 0 ? "it does not answer" : "");
        int records = random.nextInt(9) == 0 ? random.nextInt(positions.length) : random.nextInt(4);
        for (int i = 0; i < records; i++) {
            grow(positions, positions.length);
            grow(sent, sent.length);
            plain.putArray("age").add(random.nextInt(3)).add(1);
            if (random.nextInt(3) == 0) {
                grow(ends, named);
            }
        }
        if (random.nextInt(5) == 0) {
            String part = spec.parts.get(random.nextInt(positions.length)).name();
            ObjectNode states = (ObjectNode) plain.get("states");
            if (random.nextBoolean()) {
                states.remove(part);
            } else {
                states.put(part, "held");
            }
        }
        return new TaskReport(
            spec, topics, plain.deepCopy(), positions.clone(), sent.clone(), ends.clone());
    }

    private void grow(long[] numbers, int count) {
        numbers[random.nextInt(count)] += 1 + random.nextInt(100);
    }
}
