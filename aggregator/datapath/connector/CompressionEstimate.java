package aggregator.connector;

/**
 * How much smaller the batches of one hub topic become when they are compressed, as learned from
 * those before, and so how many bytes a batch may gather until then.
 *
 * <p>As Kafka's CompressionRatioEstimator, but it learns faster: a batch that becomes too large
 * costs a compression more here, and no request. Pure; used by one thread.
 */
final class CompressionEstimate {
    /** A batch gathers at most this many times of what it may have when it is compressed. */
    static final int MOST_TIMES = 8;
    /** So much worse than the estimate the next batch may be without being split. */
    private static final double MARGIN = 1.05;
    private static final double IMPROVING_SHARE = 0.25;

    private final int most;
    private double ratio = 1;
    private int room;

    /** For batches that have at most `most` bytes when they are compressed. */
    CompressionEstimate(int most) {
        this.most = most;
        room = most;
    }

    /** How many bytes a batch may gather before it is compressed. */
    int room() {
        return room;
    }

    /** A batch has become this large. A worse ratio counts at once, a better one by and by. */
    void learn(int gathered, int compressed) {
        // Few records compress badly, and say nothing of a full batch.
        if (gathered < most / 2) {
            return;
        }
        double now = (double) compressed / gathered;
        ratio = now > ratio ? now : ratio + (now - ratio) * IMPROVING_SHARE;
        room = (int) Math.min((double) most * MOST_TIMES, Math.max(most, most / ratio / MARGIN));
    }
}
