package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.spark.sql.execution.datasources.v2.LowLatencyClock;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class DriverClockTest {
    private static final long HOUR = 3_600_000;
    private static final long SLACK = 50;

    @AfterEach
    void agreeAgain() {
        hear(0);
    }

    /** An answer that took no time, of a driver whose clock is so far ahead. */
    private static void hear(long ahead) {
        long own = DriverClock.own();
        DriverClock.follow(own + ahead, own, own);
    }

    private static void assertAhead(long expected) {
        long found = DriverClock.now() - DriverClock.own();
        assertTrue(Math.abs(found - expected) <= SLACK, found + " is not " + expected);
    }

    @Test
    void aClockThatIsFarOffIsFollowedInSparkAsWell() {
        for (long ahead : new long[] {HOUR, -HOUR}) {
            hear(ahead);
            assertAhead(ahead);
            long spark = LowLatencyClock.getTimeMillis() - System.currentTimeMillis();
            assertTrue(Math.abs(spark - ahead) <= SLACK);
        }
    }

    @Test
    void whatAnAnswersWayExplainsChangesNothing() {
        hear(HOUR);
        long own = DriverClock.own();
        // Two seconds under way: the driver may have read its clock at any moment of them.
        DriverClock.follow(own + HOUR - 1_900, own - 2_000, own);
        assertAhead(HOUR);
    }
}
