package aggregator.connector;

/**
 * What a task has counted since its lane began. Written by the task's thread, and by those of its
 * producers what has arrived; read by any.
 */
final class TaskCounts {
    /** By part: records, and bytes of their keys and values. */
    final long[] records;
    final long[] bytes;
    /** Records that a recovery had found missing. */
    long replayed;
    /** Records that were left out because they come from the hub. */
    long looped;
    final Histogram age = new Histogram();
    final Histogram flight = new Histogram();

    TaskCounts(int parts) {
        records = new long[parts];
        bytes = new long[parts];
    }

    /**
     * Several records of one batch are handed over as they are, and `size` is that of the batch.
     */
    void passed(int part, int count, int size) {
        records[part] += count;
        bytes[part] += size;
    }

    /** A record is handed over. */
    void sent(int part, int size, boolean again) {
        records[part]++;
        bytes[part] += size;
        if (again) {
            replayed++;
        }
    }
}
