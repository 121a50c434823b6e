package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class HistogramTest {
    private static final long[] BOUNDS = Histogram.BOUNDS;

    @Test
    void boundsGrowByAQuarterAndByOneAtLeast() {
        assertEquals(1, BOUNDS[0]);
        for (int i = 1; i < BOUNDS.length; i++) {
            assertTrue(BOUNDS[i] >= BOUNDS[i - 1] + 1, "bound " + i);
            assertTrue(BOUNDS[i] <= Math.max(BOUNDS[i - 1] + 1, BOUNDS[i - 1] * 1.25 + 1.25));
        }
        // A percentile of four hours is still within the bounds.
        assertTrue(BOUNDS[BOUNDS.length - 1] > 4 * 3_600_000L);
    }

    @Test
    void countsNothingAtFirst() {
        JsonNode counts = new Histogram().json();
        assertEquals(BOUNDS.length + 1, counts.size());
        counts.forEach(count -> assertEquals(0, count.asLong()));
    }

    @Test
    void aValueIsCountedInTheFirstBucketWhoseBoundHoldsIt() {
        for (int i = 0; i < BOUNDS.length; i++) {
            assertEquals(List.of(i), buckets(BOUNDS[i]), "bound " + BOUNDS[i]);
            assertEquals(List.of(i + 1), buckets(BOUNDS[i] + 1), "behind " + BOUNDS[i]);
        }
    }

    @Test
    void whatIsBelowAllBoundsIsCountedInTheFirstBucket() {
        assertEquals(List.of(0), buckets(0));
        assertEquals(List.of(0), buckets(-5));
    }

    @Test
    void whatIsBeyondAllBoundsIsCountedInTheLastBucket() {
        assertEquals(List.of(BOUNDS.length), buckets(Long.MAX_VALUE));
    }

    @Test
    void eachValueCountsOnce() {
        Histogram histogram = new Histogram();
        for (long value = 1; value <= 1000; value++) {
            histogram.add(value);
        }
        JsonNode counts = histogram.json();
        long below = 0;
        long total = 0;
        for (int i = 0; i < counts.size(); i++) {
            if (i < BOUNDS.length && BOUNDS[i] <= 1000) {
                assertEquals(BOUNDS[i] - below, counts.get(i).asLong(), "bucket " + i);
                below = BOUNDS[i];
            }
            total += counts.get(i).asLong();
        }
        assertEquals(1000, total);
    }

    @Test
    void agesAreThoseOfTheRecordsWhoseTimestampIsATime() {
        Histogram ages = new Histogram();
        Histogram expected = new Histogram();
        long now = 1_700_000_000_000L;
        long[] timestamps = {now, now - 5, now, -1, now + 9, Long.MAX_VALUE, now - 900, now - 900};
        int[] ends = {2, 3, 4, 7, 8, 9, 10, 12};
        ages.addAges(timestamps, ends, timestamps.length - 1, now);
        for (long each : new long[] {0, 0, 5, 0, 0, 900}) {
            expected.add(each);
        }
        assertEquals(expected.json(), ages.json());
        ages.addAges(timestamps, ends, 0, now);
        assertEquals(expected.json(), ages.json());
    }

    /** The buckets that have counted something after this one value. */
    private static List<Integer> buckets(long value) {
        Histogram histogram = new Histogram();
        histogram.add(value);
        JsonNode counts = histogram.json();
        List<Integer> found = new ArrayList<>();
        for (int i = 0; i < counts.size(); i++) {
            if (counts.get(i).asLong() != 0) {
                assertEquals(1, counts.get(i).asLong());
                found.add(i);
            }
        }
        return found;
    }
}
