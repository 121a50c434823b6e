package aggregator.connector;

import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;

/**
 * Finds the partition that a consumer cannot read on, from what it throws.
 *
 * <p>A batch whose checksum is wrong, that cannot be decompressed, or that a broker refuses to hand
 * out is thrown as an exception whose text alone names the partition.
 */
final class Damage {
    private Damage() {}

    /** The number of the partition that is damaged, by these names; -1 when none is named. */
    static int of(RuntimeException failure, Map<String, Integer> names) {
        for (Throwable each = failure; each != null; each = each.getCause()) {
            if (each instanceof AuthenticationException || each instanceof AuthorizationException) {
                return -1;
            }
        }
        for (Throwable each = failure; each != null; each = each.getCause()) {
            String text = each.getMessage();
            // "... from orders-1. If needed, ...", "... partition orders-1 at ...", "orders-1=7. "
            for (String word : text == null ? new String[0] : text.split("[ =]")) {
                Integer found = names.get(word.endsWith(".") ? cut(word) : word);
                if (found != null) {
                    return found;
                }
            }
        }
        return -1;
    }

    /** What is wrong, in the words of the client that found it. */
    static String reason(RuntimeException failure, TopicPartition name, long offset) {
        Throwable first = failure;
        while (first.getCause() != null) {
            first = first.getCause();
        }
        String text = first.getMessage() == null ? first.toString() : first.getMessage();
        return "offset " + offset + " of " + name + " cannot be read: " + text;
    }

    private static String cut(String word) {
        return word.substring(0, word.length() - 1);
    }
}
