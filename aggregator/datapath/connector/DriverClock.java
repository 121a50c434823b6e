package aggregator.connector;

import org.apache.spark.sql.execution.datasources.v2.LowLatencyClock;
import org.apache.spark.util.Clock;
import org.apache.spark.util.SystemClock;

/**
 * The driver's time of day, in any JVM. Spark gives the end of a batch in the driver's time and has
 * the executor compare its own: one that is hours ahead would end each batch at once. So an
 * executor learns from the driver's answers how far its clock is off, and Spark's tasks there and
 * ours go by that. Durations, such as the lease, are never measured with it.
 */
final class DriverClock implements Clock {
    private static final long TOLERATED_MS = 100;
    private static final DriverClock ONE = new DriverClock();
    private static final Clock OWN = new SystemClock();

    private static volatile long ahead;

    private DriverClock() {}

    /** Milliseconds since 1970, by the driver's clock. */
    static long now() {
        return own() + ahead;
    }

    /** Milliseconds since 1970, by the clock of this machine. */
    static long own() {
        return OWN.getTimeMillis();
    }

    /** The driver's clock said this between two moments of our own: it is followed from now on. */
    static void follow(long driver, long asked, long answered) {
        long known = ahead;
        if (known < driver - answered - TOLERATED_MS || known > driver - asked + TOLERATED_MS) {
            ahead = driver - (asked + answered) / 2;
            LowLatencyClock.setClock(ONE);
        }
    }

    @Override
    public long getTimeMillis() {
        return now();
    }

    @Override
    public long nanoTime() {
        return OWN.nanoTime();
    }

    @Override
    public long waitTillTime(long target) {
        return OWN.waitTillTime(target - ahead) + ahead;
    }
}
