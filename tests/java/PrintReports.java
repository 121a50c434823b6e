package aggregator.connector;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/**
 * Prints what the driver hears of two tasks that move between executors, whose reports get lost or
 * come late, and what they have reported by then, for tests/unit/test_connector_reports.py.
 */
final class PrintReports {
    private static final Random RANDOM = new Random(11);
    private static final RandomTask[] TASKS = {
        new RandomTask(0, RANDOM), new RandomTask(1, RANDOM)};
    /** Of each executor, by tasks. */
    private static final List<Map<String, ReportNews>> NEWS =
        List.of(new HashMap<>(), new HashMap<>());
    private static final Map<String, ObjectNode> ARRIVED = new HashMap<>();

    private PrintReports() {}

    public static void main(String[] args) {
        Lanes.put("{\"key\": \"eu#3\"}");
        long since = 0;
        for (int step = 0; step < 2_000; step++) {
            report(RANDOM.nextInt(20) == 0 ? 1 : 0, TASKS[RANDOM.nextInt(2)]);
            if (RANDOM.nextInt(3) == 0) {
                ObjectNode heard = (ObjectNode) Json.parse(Lanes.reports(since));
                // Or the driver does not get it, and asks as before.
                if (RANDOM.nextInt(4) > 0) {
                    since = heard.get("seq").asLong();
                    ObjectNode both = heard.objectNode();
                    both.set("reported", heard);
                    ArrayNode all = both.putArray("all");
                    ARRIVED.values().forEach(all::add);
                    System.out.println(both);
                }
            }
        }
    }

    /** As {@link Reporter} does it. */
    private static void report(int executor, RandomTask task) {
        Map<String, ReportNews> news = NEWS.get(executor);
        String name = task.spec.name;
        TaskReport report = task.next();
        ReportPlugin.TaskNews sent = news.computeIfAbsent(name, n -> new ReportNews()).of(report);
        if (sent == null) {
            return;
        }
        boolean arrives = RANDOM.nextInt(10) > 0;
        if (arrives) {
            List<String> again = Lanes
                                     .receive(new ReportPlugin.Report(
                                         "" + executor,
                                         List.of(name),
                                         Map.of(name, sent),
                                         Map.of(),
                                         Map.of(),
                                         List.of()))
                                     .again();
            again.forEach(news::remove);
            if (again.isEmpty()) {
                ARRIVED.put(name, report.whole(0));
            }
        }
        // Whether it has arrived or not is not known without an answer.
        if (!arrives || RANDOM.nextInt(10) == 0) {
            news.clear();
        }
    }
}
