package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class CompressionEstimateTest {
    private static final int MOST = 100_000;

    private final CompressionEstimate estimate = new CompressionEstimate(MOST);

    @Test
    void withoutAnyBatchBeforeNothingIsTakenToBecomeSmaller() {
        assertEquals(MOST, estimate.room());
    }

    @Test
    void aBetterRatioCountsByAndByAndAWorseOneAtOnce() {
        estimate.learn(MOST, MOST / 4);
        assertTrue(estimate.room() < 1.3 * MOST, estimate.room() + " bytes");
        for (int i = 0; i < 20; i++) {
            estimate.learn(estimate.room(), estimate.room() / 4);
        }
        assertTrue(estimate.room() > 3.7 * MOST, estimate.room() + " bytes");
        assertTrue(estimate.room() / 4 < MOST, estimate.room() + " bytes");
        estimate.learn(MOST, MOST / 2);
        assertEquals(2 * MOST / 1.05, estimate.room(), 1);
    }

    @Test
    void fewRecordsSayNothing() {
        estimate.learn(MOST, MOST / 2);
        int before = estimate.room();
        estimate.learn(200, 200);
        assertEquals(before, estimate.room());
    }

    @Test
    void roomIsNeverLessThanWithoutCompressionNorMoreThanAFewTimesThat() {
        estimate.learn(MOST, MOST + 50);
        assertEquals(MOST, estimate.room());
        for (int i = 0; i < 50; i++) {
            estimate.learn(MOST, 10);
        }
        assertEquals(CompressionEstimate.MOST_TIMES * MOST, estimate.room());
    }
}
