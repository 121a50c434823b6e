package aggregator.connector;

import org.apache.kafka.clients.consumer.internals.BatchCollector;
import org.apache.kafka.clients.consumer.internals.FetchSight;
import org.apache.kafka.clients.producer.internals.BatchDoor;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Whether kafka-clients has the inner parts that the way of bytes reaches for, as it was pinned.
 */
final class KafkaShape {
    /** The version in aggregator/datapath/jars; a test compares them. */
    static final String VERSION = "3.9.2";
    private static final String MISFIT = check(AppInfoParser.getVersion());

    private KafkaShape() {}

    /** Why records cannot be copied as bytes in this JVM; "" when they can. */
    static String misfit() {
        return MISFIT;
    }

    static String check(String version) {
        String why = "kafka-clients " + version + " is not the version " + VERSION
            + " that records are copied as bytes with";
        if (!VERSION.equals(version)) {
            return why;
        }
        try {
            BatchCollector.check();
            BatchDoor.check();
            FetchSight.check();
            return "";
        } catch (ReflectiveOperationException | LinkageError another) {
            return why + ": " + another;
        }
    }
}
