package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The driver's side of all lanes, and what Python calls: specs of lanes, orders to their tasks, and
 * the newest report of each task. A lane's life is named by {@link TaskSpec#key}.
 */
public final class Lanes {
    private static final class Latest {
        long number;
        String json;
    }

    private static final class Jvm {
        long heardAt;
        Set<String> open = Set.of();
    }

    private static final Map<String, JsonNode> SPECS = new HashMap<>();
    private static final Map<String, String> ORDERS = new HashMap<>();
    private static final Map<String, Latest> REPORTS = new HashMap<>();
    private static final Map<String, Jvm> JVMS = new HashMap<>();
    /** When a source last answered a fetch of any task. */
    private static final Map<String, Long> HEARD = new HashMap<>();
    private static long seq;
    private static long snapshot;
    private static long answerMillis = Long.MAX_VALUE;

    private Lanes() {}

    /** Nothing is known of an earlier Spark context of this JVM any more. */
    static synchronized void reset() {
        SPECS.clear();
        ORDERS.clear();
        REPORTS.clear();
        JVMS.clear();
        HEARD.clear();
        Dedup.reset();
    }

    /** How long an executor may send after an answer, and no longer than the driver itself may. */
    public static synchronized void answerFor(long millis) {
        answerMillis = millis;
    }

    /** Makes a life of a lane known, before its query starts. */
    public static synchronized void put(String spec) {
        JsonNode json = Json.parse(spec);
        String key = TaskSpec.key(json);
        SPECS.put(key, json);
        ORDERS.put(key, "");
    }

    /** Orders to all tasks of a lane (see {@link Orders}), in place of those before. */
    public static synchronized void order(String key, String orders) {
        if (SPECS.containsKey(key)) {
            ORDERS.put(key, orders);
        }
    }

    /** Forgets a lane that is over; its idle tasks are closed wherever they are. */
    public static synchronized void forget(String key) {
        SPECS.remove(key);
        ORDERS.remove(key);
        REPORTS.keySet().removeIf(name -> name.startsWith(key + "-"));
    }

    /** The number of the newest snapshot of the hub's ends; reports say which one they knew. */
    public static synchronized void snapshot(long number) {
        snapshot = number;
    }

    /**
     * {"seq": n, "unheard": {...}, "tasks": [...]}: the reports that came since the call that
     * returned `since`, and for how many milliseconds each source has answered no fetch.
     */
    public static synchronized String reports(long since) {
        ObjectNode unheard = JsonNodeFactory.instance.objectNode();
        long now = System.nanoTime();
        HEARD.forEach((source, at) -> unheard.put(source, (now - at) / 1_000_000));
        StringBuilder text = new StringBuilder("{\"seq\":").append(seq);
        text.append(",\"unheard\":").append(unheard).append(",\"tasks\":[");
        String comma = "";
        for (Latest latest : REPORTS.values()) {
            if (latest.number > since) {
                text.append(comma).append(latest.json);
                comma = ",";
            }
        }
        return text.append("]}").toString();
    }

    /**
     * Whether a task of this lane may still send: it is open in this JVM or, as far as it was heard
     * of, in another. One that was not heard of for `lostMillis` counts as gone.
     */
    public static synchronized boolean isOpen(String key, long lostMillis) {
        String prefix = key + "-";
        for (LaneTask task : LaneTask.open()) {
            if (task.spec.name.startsWith(prefix)) {
                return true;
            }
        }
        long oldest = System.nanoTime() - lostMillis * 1_000_000;
        for (Jvm jvm : JVMS.values()) {
            if (jvm.heardAt > oldest && jvm.open.stream().anyMatch(n -> n.startsWith(prefix))) {
                return true;
            }
        }
        return false;
    }

    /** The process of an executor has ended: nothing of it is sent any more. */
    static synchronized void gone(String executor) {
        JVMS.remove(executor);
    }

    static synchronized JsonNode spec(String key) {
        JsonNode found = SPECS.get(key);
        if (found == null) {
            throw new IllegalStateException("no lane " + key + " is known");
        }
        return found;
    }

    static synchronized String orders(String key) {
        return ORDERS.getOrDefault(key, "");
    }

    /**
     * The JVMs that have reported a task, for Spark to send it there again: task name -> executor.
     */
    static synchronized Map<String, String> places() {
        Map<String, String> found = new HashMap<>();
        JVMS.forEach((executor, jvm) -> jvm.open.forEach(name -> found.put(name, executor)));
        return found;
    }

    static synchronized ReportPlugin.Answer receive(ReportPlugin.Report report) {
        Jvm jvm = JVMS.computeIfAbsent(report.executor(), name -> new Jvm());
        jvm.heardAt = System.nanoTime();
        jvm.open = new HashSet<>(report.open());
        report.unheard().forEach(
            (source, ms) -> HEARD.merge(source, jvm.heardAt - ms * 1_000_000, Math::max));
        report.tasks().forEach((name, json) -> {
            if (SPECS.containsKey(
                    name.substring(0, name.lastIndexOf('-', name.lastIndexOf('-') - 1)))) {
                Latest latest = REPORTS.computeIfAbsent(name, n -> new Latest());
                latest.number = ++seq;
                latest.json = json;
            }
        });
        List<String> live = new ArrayList<>(SPECS.keySet());
        return new ReportPlugin.Answer(
            Map.copyOf(ORDERS),
            List.copyOf(live),
            snapshot,
            Math.min(WriteGuard.left(), answerMillis),
            DriverClock.own());
    }
}
