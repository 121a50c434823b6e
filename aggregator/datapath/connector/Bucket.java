package aggregator.connector;

/**
 * A token bucket over nanoseconds that the caller passes. Pure. Holds at most a quarter of a
 * second's worth, so that a pause is not made good by a burst; what is taken may exceed what is
 * there, and is waited for afterwards: a record larger than the bucket must pass.
 */
final class Bucket {
    private static final double DEPTH_SECONDS = 0.25;
    private double perSecond;
    private double tokens;
    private long filledAt;

    /** No limit. */
    Bucket(long now) {
        this.perSecond = Double.POSITIVE_INFINITY;
        this.filledAt = now;
    }

    /** Another limit from now on; infinity for none. */
    void limit(double perSecond, long now) {
        if (perSecond != this.perSecond) {
            fill(now);
            this.perSecond = perSecond;
            this.tokens = Math.min(tokens, perSecond * DEPTH_SECONDS);
        }
    }

    boolean limited() {
        return perSecond != Double.POSITIVE_INFINITY;
    }

    void take(double count) {
        tokens -= count;
    }

    /** How long the next one has to wait; 0 when it need not. */
    long waitNanos(long now) {
        if (!limited()) {
            return 0;
        }
        fill(now);
        return tokens >= 0 ? 0 : (long) Math.ceil(-tokens / perSecond * 1e9);
    }

    private void fill(long now) {
        double gained = (now - filledAt) / 1e9 * perSecond;
        // Without a limit there is nothing to gather: a limit begins with an empty bucket.
        tokens = limited() ? Math.min(tokens + gained, perSecond * DEPTH_SECONDS) : 0;
        filledAt = now;
    }
}
