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
     * What one JVM reports: the names of its open tasks, new reports (name -> JSON), for how many
     * milliseconds each source (alias) has answered no fetch, of those that ever have, what has
     * changed of the log ends (name -> as {@link LogEnds#take} returns it), and which hub
     * partitions were cut off (topic, partition and offset, as {@link HubReach.Cut}).
     */
    record Report(
        String executor,
        List<String> open,
        Map<String, String> tasks,
        Map<String, Long> unheard,
        Map<String, Map<String, long[]>> ends,
        List<List<Object>> cuts) {
        Object message() {
            return List.of(executor, open, tasks, unheard, ends, cuts);
        }

        @SuppressWarnings("unchecked")
        static Report of(Object message) {
            List<Object> parts = (List<Object>) message;
            return new Report(
                (String) parts.get(0),
                (List<String>) parts.get(1),
                (Map<String, String>) parts.get(2),
                (Map<String, Long>) parts.get(3),
                (Map<String, Map<String, long[]>>) parts.get(4),
                (List<List<Object>>) parts.get(5));
        }
    }

    /**
     * The answer: orders by lane life, which lives there are, the newest hub snapshot, for how
     * many milliseconds it may send from the moment on at which it began to ask, and what the
     * driver's clock said then.
     */
    record Answer(
        Map<String, String> orders, List<String> live, long snapshot, long sendMillis, long at) {
        Object message() {
            return List.of(orders, live, snapshot, sendMillis, at);
        }

        @SuppressWarnings("unchecked")
        static Answer of(Object message) {
            List<Object> parts = (List<Object>) message;
            return new Answer(
                (Map<String, String>) parts.get(0),
                (List<String>) parts.get(1),
                (Long) parts.get(2),
                (Long) parts.get(3),
                (Long) parts.get(4));
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
