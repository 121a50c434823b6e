package aggregator.connector;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;

/**
 * Counts of milliseconds in buckets whose bounds grow by a quarter. Read by
 * other threads than it is written by, which may see a count a moment later; where two write at the
 * same moment one count may be lost. Python turns the counts into percentiles.
 */
final class Histogram {
    /** Upper bounds in milliseconds; what is beyond the last is counted in one more bucket. */
    static final long[] BOUNDS = bounds();

    /** No clock is further ahead: that is meant as no time, and such a record has no age. */
    private static final long AHEAD_MS = 3_600_000;

    private final long[] counts = new long[BOUNDS.length + 1];

    private static long[] bounds() {
        long[] found = new long[72];
        double bound = 1;
        for (int i = 0; i < found.length; i++) {
            found[i] = Math.max((long) bound, i + 1L);
            bound = Math.max(bound * 1.25, bound + 1);
        }
        return found;
    }

    void add(long millis) {
        add(millis, 1);
    }

    void add(long millis, int times) {
        int low = 0;
        int high = BOUNDS.length;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (millis <= BOUNDS[middle]) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        counts[low] += times;
    }

    /**
     * The ages of some records, as far as their timestamps are times: of each run of records the
     * timestamp, and how many records there are up to its end.
     */
    void addAges(long[] timestamps, int[] ends, int runs, long now) {
        int from = 0;
        for (int i = 0; i < runs; i++) {
            long timestamp = timestamps[i];
            if (timestamp >= 0 && timestamp - now <= AHEAD_MS) {
                add(Math.max(0, now - timestamp), ends[i] - from);
            }
            from = ends[i];
        }
    }

    ArrayNode json() {
        ArrayNode array = JsonNodeFactory.instance.arrayNode();
        for (long count : counts) {
            array.add(count);
        }
        return array;
    }
}
