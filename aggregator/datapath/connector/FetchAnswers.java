package aggregator.connector;

import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;

/**
 * When a source last answered a fetch, also one without records, by what its consumers count. Used
 * by the task's thread; the silence may be read by any.
 */
final class FetchAnswers {
    private static final String NAME = "fetch-total";
    private static final String GROUP = "consumer-fetch-manager-metrics";

    /** Null where the consumer does not count them. */
    private Metric counted;
    private double count;
    private volatile long lastAt;
    private volatile boolean isAny;

    /** Counts those of another consumer from now on. */
    void follow(Consumer<byte[], byte[]> consumer) {
        counted = null;
        count = 0;
        for (Map.Entry<MetricName, ? extends Metric> each : consumer.metrics().entrySet()) {
            MetricName name = each.getKey();
            if (name.name().equals(NAME) && name.group().equals(GROUP)) {
                counted = each.getValue();
            }
        }
    }

    /** Whether the consumer counts them; else only records are seen. */
    boolean areCounted() {
        return counted != null;
    }

    /** After a poll, which may have `records`. */
    void look(boolean records) {
        double now = counted == null ? 0 : ((Number) counted.metricValue()).doubleValue();
        if (records || now > count) {
            count = now;
            lastAt = System.nanoTime();
            isAny = true;
        }
    }

    /** For how long there was no answer; below 0 when there has never been any. */
    long silentNanos() {
        return isAny ? System.nanoTime() - lastAt : -1;
    }
}
