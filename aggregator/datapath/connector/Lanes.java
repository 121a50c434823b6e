package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import org.apache.spark.sql.streaming.StreamingQuery;

/**
 * The driver's side of all lanes, and what Python calls: specs of lanes, orders to their tasks, and
 * the newest report of each task. A lane's life is named by {@link TaskSpec#key}.
 */
public final class Lanes {
    /** A task's newest report, the whole one that it may be based on, and when each arrived. */
    private record Latest(
        ReportPlugin.TaskNews whole, long wholeAt, ReportPlugin.TaskNews newest, long at) {
        /** What came after this, a change after what it changes. */
        void add(StringJoiner all, long since) {
            if (wholeAt > since) {
                all.add(whole.json());
            }
            if (at > since && newest != whole) {
                all.add(newest.json());
            }
        }
    }

    /** What was last reported of a partition's log, and when it arrived. */
    private record End(long number, long[] values, long at) {}

    private static final class Jvm {
        long heardAt;
        Set<String> open = Set.of();
    }

    private static final Map<String, JsonNode> SPECS = new HashMap<>();
    private static final Map<String, String> ORDERS = new HashMap<>();
    private static final Map<String, Latest> REPORTS = new HashMap<>();
    private static final Map<String, Jvm> JVMS = new HashMap<>();
    private static final Map<String, StreamingQuery> QUERIES = new HashMap<>();
    /** By the names of tasks and partitions. */
    private static final Map<String, Map<String, End>> ENDS = new HashMap<>();
    /** Which hub partitions were cut off, by the number of the report that said so. */
    private static final NavigableMap<Long, List<List<Object>>> CUTS = new TreeMap<>();
    /** When a source last answered a fetch of any task. */
    private static final Map<String, Long> HEARD = new HashMap<>();
    private static long seq;
    /** How often a task was opened or closed. */
    private static long moves;
    private static long snapshot;
    private static long answerMillis = Long.MAX_VALUE;

    private Lanes() {}

    /** Nothing is known of an earlier Spark context of this JVM any more. */
    static synchronized void reset() {
        SPECS.clear();
        ORDERS.clear();
        REPORTS.clear();
        JVMS.clear();
        QUERIES.clear();
        HEARD.clear();
        ENDS.clear();
        CUTS.clear();
        HubReach.reset();
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
        Reporter.nudge();
    }

    /** Orders to all tasks of a lane (see {@link Orders}), in place of those before. */
    public static synchronized void order(String key, String orders) {
        if (SPECS.containsKey(key)) {
            ORDERS.put(key, orders);
            Reporter.nudge();
        }
    }

    /** From now on `reports` says when the query of a lane's life is over. */
    public static synchronized void follow(String key, StreamingQuery query) {
        QUERIES.put(key, query);
    }

    /** Forgets a lane that is over; its idle tasks are closed wherever they are. */
    public static synchronized void forget(String key) {
        SPECS.remove(key);
        ORDERS.remove(key);
        QUERIES.remove(key);
        REPORTS.keySet().removeIf(name -> name.startsWith(key + "-"));
        ENDS.keySet().removeIf(name -> name.startsWith(key + "-"));
        Reporter.nudge();
    }

    /** The number of the newest snapshot of the hub's ends; reports say which one they knew. */
    public static synchronized void snapshot(long number) {
        snapshot = number;
    }

    /**
     * {"seq": n, "moves": n, "over": [...], "unheard": {...}, "ends": [...], "cuts": [...],
     * "tasks": [...]}: the reports that came since the call that returned `since`, a whole one
     * before what has changed since that, what has changed of the log ends since then and which hub
     * partitions were cut off (with topic, partition and offset), for how many milliseconds each
     * source has answered no fetch, how often tasks came or went, and the lives of lanes whose
     * query is over.
     */
    public static synchronized String reports(long since) {
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        json.put("seq", seq).put("moves", moves);
        ArrayNode over = json.putArray("over");
        QUERIES.forEach((key, query) -> {
            if (!query.isActive()) {
                over.add(key);
            }
        });
        long now = System.nanoTime();
        for (LaneTask task : LaneTask.open()) {
            hear(task.spec.cluster, task.silentNanos(), now);
        }
        ObjectNode unheard = json.putObject("unheard");
        HEARD.forEach((source, at) -> unheard.put(source, (now - at) / 1_000_000));
        ArrayNode ends = json.putArray("ends");
        ENDS.forEach((task, parts) -> addEnds(ends, task, parts, since, now));
        ArrayNode cuts = json.putArray("cuts");
        CUTS.headMap(since, true).clear();
        CUTS.values().forEach(all -> all.forEach(cut -> {
            ArrayNode own = cuts.addArray();
            own.add((String) cut.get(0)).add((Integer) cut.get(1)).add((Long) cut.get(2));
        }));
        String text = json.toString();
        String begin = text.substring(0, text.length() - 1) + ",\"tasks\":[";
        StringJoiner tasks = new StringJoiner(",", begin, "]}");
        REPORTS.values().forEach(latest -> latest.add(tasks, since));
        return tasks.toString();
    }

    private static void addEnds(
        ArrayNode all, String task, Map<String, End> parts, long since, long now) {
        ObjectNode news = JsonNodeFactory.instance.objectNode();
        parts.forEach((name, end) -> {
            if (end.number > since) {
                long[] values = end.values;
                long late = values[1] < 0 ? -1 : values[1] + (now - end.at) / 1_000_000;
                news.putArray(name).add(values[0]).add(late).add(values[2]);
            }
        });
        JsonNode spec = SPECS.get(keyOf(task));
        if (news.isEmpty() || spec == null) {
            return;
        }
        int reading = Integer.parseInt(task.substring(keyOf(task).length() + 1).split("-")[0]);
        ObjectNode own = all.addObject();
        own.set("lane", spec.get("lane"));
        own.set("generation", spec.get("generation"));
        own.set("cluster", spec.get("readings").get(reading).get("cluster"));
        own.set("parts", news);
    }

    /** The lane's life that a task is of. */
    private static String keyOf(String task) {
        return task.substring(0, task.lastIndexOf('-', task.lastIndexOf('-') - 1));
    }

    /** A source answered a fetch this time before `now`; below 0 when it never has. */
    private static void hear(String source, long silentNanos, long now) {
        if (silentNanos >= 0) {
            HEARD.merge(source, now - silentNanos, Math::max);
        }
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
        Set<String> open = new HashSet<>(report.open());
        if (!open.equals(jvm.open)) {
            jvm.open = open;
            moves++;
        }
        report.unheard().forEach((source, ms) -> hear(source, ms * 1_000_000, jvm.heardAt));
        report.ends().forEach((name, parts) -> {
            if (SPECS.containsKey(keyOf(name))) {
                Map<String, End> own = ENDS.computeIfAbsent(name, n -> new HashMap<>());
                long number = ++seq;
                parts.forEach((part, it) -> own.put(part, new End(number, it, jvm.heardAt)));
            }
        });
        List<String> again = new ArrayList<>();
        report.tasks().forEach((name, newest) -> {
            if (SPECS.containsKey(keyOf(name)) && !take(name, newest)) {
                again.add(name);
            }
        });
        if (!report.cuts().isEmpty()) {
            CUTS.put(++seq, report.cuts());
        }
        List<String> live = new ArrayList<>(SPECS.keySet());
        return new ReportPlugin.Answer(
            Map.copyOf(ORDERS),
            List.copyOf(live),
            snapshot,
            Math.min(WriteGuard.left(), answerMillis),
            DriverClock.own(),
            again);
    }

    /** Takes a report of a task; false where what it changes is not here. */
    private static boolean take(String name, ReportPlugin.TaskNews newest) {
        Latest before = REPORTS.get(name);
        if (newest.whole()) {
            long number = ++seq;
            REPORTS.put(name, new Latest(newest, number, newest, number));
        } else if (before != null && before.whole.number() == newest.number()) {
            REPORTS.put(name, new Latest(before.whole, before.wholeAt, newest, ++seq));
        } else {
            return false;
        }
        return true;
    }
}
