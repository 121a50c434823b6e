package aggregator.connector;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;

/**
 * The way between the driver and the tasks of the lanes, by Spark's plugin messages: each JVM with
 * tasks polls the driver a few times a second, reports what they did, and gets their orders.
 * Messages are made of the JDK's own classes: Spark reads them where it does not know ours yet.
 */
public final class ReportPlugin implements SparkPlugin {
    /**
     * A report of a task as JSON: {@link TaskReport#whole} with this number, or what has changed
     * {@link TaskReport#since} that one.
     */
    record TaskNews(long number, boolean whole, String json) {
        private static TaskNews of(List<Object> message) {
            return new TaskNews(
                (Long) message.get(0), (Boolean) message.get(1), (String) message.get(2));
        }
    }

    /**
     * What one JVM reports: the names of its open tasks, new reports of these, for how many
     * milliseconds each source (alias) has answered no fetch, of those that ever have, what has
     * changed of the log ends (name -> as {@link LogEnds#take} returns it), and which hub
     * partitions were cut off (topic, partition and offset, as {@link HubReach.Cut}).
     */
    record Report(
        String executor,
        List<String> open,
        Map<String, TaskNews> tasks,
        Map<String, Long> unheard,
        Map<String, Map<String, long[]>> ends,
        List<List<Object>> cuts) {
        Object message() {
            Map<String, List<Object>> messages = new HashMap<>();
            tasks.forEach((name, it) -> messages.put(name, List.of(it.number, it.whole, it.json)));
            return List.of(executor, open, messages, unheard, ends, cuts);
        }

        @SuppressWarnings("unchecked")
        static Report of(Object message) {
            List<Object> parts = (List<Object>) message;
            Map<String, TaskNews> messages = new HashMap<>();
            ((Map<String, List<Object>>) parts.get(2))
                .forEach((name, it) -> messages.put(name, TaskNews.of(it)));
            return new Report(
                (String) parts.get(0),
                (List<String>) parts.get(1),
                messages,
                (Map<String, Long>) parts.get(3),
                (Map<String, Map<String, long[]>>) parts.get(4),
                (List<List<Object>>) parts.get(5));
        }
    }

    /**
     * The answer: orders by lane life, which lives there are, the newest hub snapshot, for how
     * many milliseconds it may send from the moment on at which it began to ask, what the driver's
     * clock said then, and the tasks (names) whose changes it cannot read: it has not got the
     * report that these are of.
     */
    record Answer(
        Map<String, String> orders,
        List<String> live,
        long snapshot,
        long sendMillis,
        long at,
        List<String> again) {
        Object message() {
            return List.of(orders, live, snapshot, sendMillis, at, again);
        }

        @SuppressWarnings("unchecked")
        static Answer of(Object message) {
            List<Object> parts = (List<Object>) message;
            return new Answer(
                (Map<String, String>) parts.get(0),
                (List<String>) parts.get(1),
                (Long) parts.get(2),
                (Long) parts.get(3),
                (Long) parts.get(4),
                (List<String>) parts.get(5));
        }
    }

    /**
     * Hears of executors that are gone for certain: their worker has seen the process end. Of one
     * that is only lost, which may be the network, nothing is concluded.
     */
    private static final class Exits extends SparkListener {
        private static final String EXITED = "Command exited with code ";

        @Override
        public void onExecutorRemoved(SparkListenerExecutorRemoved removed) {
            if (removed.reason().startsWith(EXITED)) {
                Lanes.gone(removed.executorId());
            }
        }
    }

    @Override
    public DriverPlugin driverPlugin() {
        return new DriverPlugin() {
            @Override
            public Map<String, String> init(SparkContext context, PluginContext plugin) {
                FatalErrors.watch();
                Lanes.reset();
                context.addSparkListener(new Exits());
                return new HashMap<>();
            }

            @Override
            public Object receive(Object message) {
                return Lanes.receive(Report.of(message)).message();
            }
        };
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return new ExecutorPlugin() {
            private Reporter reporter;

            @Override
            public void init(PluginContext context, Map<String, String> conf) {
                FatalErrors.watch();
                reporter = new Reporter(context);
                reporter.start();
            }

            @Override
            public void shutdown() {
                reporter.end();
            }
        };
    }
}
