package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Random;
import org.junit.jupiter.api.Test;

class TaskReportTest {
    private static ObjectNode parsed(ReportPlugin.TaskNews news) {
        return (ObjectNode) Json.parse(news.json());
    }

    /** What the driver makes of a report and what has changed since. */
    private static JsonNode applied(ObjectNode base, ObjectNode changes) {
        ObjectNode all = base.deepCopy();
        assertEquals(base.get("number"), changes.remove("base"));
        changes.properties().forEach(field -> {
            switch (field.getKey()) {
                case "positions", "topics" ->
                    ((ObjectNode) all.get(field.getKey())).setAll((ObjectNode) field.getValue());
                case "ends" ->
                    field.getValue().forEach(end -> put((ArrayNode) all.get("ends"), end));
                default -> all.set(field.getKey(), field.getValue());
            }
        });
        return sorted(all);
    }

    private static void put(ArrayNode ends, JsonNode end) {
        for (int i = 0; i < ends.size(); i++) {
            boolean same =
                ends.get(i).get(0).equals(end.get(0)) && ends.get(i).get(1).equals(end.get(1));
            if (same) {
                ends.remove(i--);
            }
        }
        ends.add(end);
    }

    /** Without the number, and with the ends by their places. */
    private static JsonNode sorted(ObjectNode report) {
        report.remove("number");
        ObjectNode ends = report.objectNode();
        report.remove("ends").forEach(it -> ends.set(it.get(0) + "/" + it.get(1), it.get(2)));
        return report.set("ends", ends);
    }

    @Test
    void aReportAndWhatHasChangedSinceAreTheWholeLaterOneWhateverWasLostBetween() {
        Random random = new Random(7);
        int wholes = 0;
        int changes = 0;
        int same = 0;
        for (int run = 0; run < 30; run++) {
            RandomTask task = new RandomTask(0, random);
            ReportNews news = new ReportNews();
            ObjectNode base = null;
            JsonNode last = null;
            for (int step = 0; step < 100; step++) {
                TaskReport report = task.next();
                JsonNode all = sorted((ObjectNode) Json.parse(report.whole(0).toString()));
                ReportPlugin.TaskNews sent = news.of(report);
                if (sent == null) {
                    assertEquals(last, all);
                    same++;
                    continue;
                }
                assertNotEquals(last, all);
                last = all;
                if (sent.whole()) {
                    base = parsed(sent);
                    assertEquals(sent.number(), base.get("number").asLong());
                    assertEquals(all, sorted(base.deepCopy()));
                    wholes++;
                } else if (random.nextInt(3) > 0) {
                    assertEquals(all, applied(base, parsed(sent)));
                    changes++;
                }
            }
        }
        assertTrue(wholes > 100 && changes > 1_000 && same > 20, wholes + ", " + changes);
    }

    @Test
    void ofATaskThatIsIdleOnlyItsPointIsReported() {
        TaskReport first = new RandomTask(0, new Random(7)).next();
        ObjectNode later = first.plain().deepCopy().put("point", 8).put("snapshot", 9);
        TaskReport report = with(first, later, first.positions());
        assertEquals(
            Specs.json(
                "{'lane': 'eu', 'generation': 3, 'reading': 1, 'task': 0, 'base': 5,"
                + "'point': 8, 'snapshot': 9}"),
            Json.parse(report.since(first, 5).toString()));
    }

    @Test
    void whereMuchHasChangedAReportIsAWholeOneAndLaterOnesAreBasedOnIt() {
        TaskReport first = new RandomTask(0, new Random(7)).next();
        ReportNews news = new ReportNews();
        long number = news.of(first).number();
        long[] positions = first.positions().clone();
        int all = positions.length + first.topics().names.length + first.ends().length + 4;
        for (int i = 0; i < all / 8; i++) {
            positions[i]++;
        }
        assertNotNull(with(first, first.plain(), positions.clone()).since(first, number));
        ReportPlugin.TaskNews little = news.of(with(first, first.plain(), positions.clone()));
        assertFalse(little.whole());
        assertEquals(number, little.number());
        positions[positions.length - 1]++;
        assertNull(with(first, first.plain(), positions).since(first, number));
        TaskReport second = with(first, first.plain(), positions);
        ReportPlugin.TaskNews much = news.of(second);
        assertTrue(much.whole());
        assertNotEquals(number, much.number());
        assertNull(news.of(second));
        positions = positions.clone();
        positions[0]++;
        ReportPlugin.TaskNews next = news.of(with(first, first.plain(), positions));
        assertEquals(much.number(), next.number());
        assertEquals(1, parsed(next).get("positions").size());
    }

    @Test
    void statesOfManyPartitionsAreNotRepeatedForOneThatChanges() {
        TaskReport first = new RandomTask(0, new Random(7)).next();
        ObjectNode plain = first.plain().deepCopy();
        ObjectNode states = plain.putObject("states");
        first.spec().parts.forEach(part -> states.put(part.name(), "refused"));
        TaskReport refused = with(first, plain, first.positions());
        assertNull(refused.since(first, 1));
        ObjectNode later = plain.deepCopy().put("point", 8);
        assertFalse(with(first, later, first.positions()).since(refused, 1).has("states"));
    }

    private static TaskReport with(TaskReport of, ObjectNode plain, long[] positions) {
        return new TaskReport(of.spec(), of.topics(), plain, positions, of.sent(), of.ends());
    }
}
