package aggregator.connector;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.UUID;

/**
 * What of a task's reports goes to the driver: one as a whole, then what has changed since that
 * one, until it is so much that the next whole one is as short. Each of these has all changes, so
 * one that is lost does no harm.
 */
final class ReportNews {
    private TaskReport base;
    private long number;
    private String last;

    /** The message for a report; null where it says the same as the one before. */
    ReportPlugin.TaskNews of(TaskReport report) {
        ObjectNode changes = base == null ? null : report.since(base, number);
        if (changes == null) {
            base = report;
            // By chance: a driver that has one of another JVM must not take it for this one.
            number = UUID.randomUUID().getLeastSignificantBits();
            last = report.since(base, number).toString();
            return new ReportPlugin.TaskNews(number, true, report.whole(number).toString());
        }
        String text = changes.toString();
        if (text.equals(last)) {
            return null;
        }
        last = text;
        return new ReportPlugin.TaskNews(number, false, text);
    }
}
