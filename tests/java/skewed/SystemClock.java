package org.apache.spark.util;

/**
 * In place of Spark's own, for executors of a test: a machine whose clock is wrong by as many
 * milliseconds as the property `clock.ahead.ms` says.
 */
public class SystemClock implements Clock {
    private static final long POLL_MS = 25;
    private static final long AHEAD_MS = Long.getLong("clock.ahead.ms", 0);

    @Override
    public long getTimeMillis() {
        return System.currentTimeMillis() + AHEAD_MS;
    }

    @Override
    public long nanoTime() {
        return System.nanoTime();
    }

    @Override
    public long waitTillTime(long target) {
        while (getTimeMillis() < target) {
            try {
                Thread.sleep(POLL_MS);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                break;
            }
        }
        return getTimeMillis();
    }
}
