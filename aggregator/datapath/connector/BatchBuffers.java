package aggregator.connector;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;

/**
 * Memory outside the heap for the larger batches that are on their way to the hub, used again and
 * again: a collector neither moves nor frees it, and a socket takes it as it is.
 *
 * <p>Taken by the task's thread, given back by that of a producer.
 */
final class BatchBuffers {
    /** Smaller batches are as well in arrays. */
    private static final int LEAST_BYTES = 16_384;
    private static final long MOST_BYTES = 8_388_608;

    private final int size;
    private final ArrayDeque<ByteBuffer> spare = new ArrayDeque<>();
    /** How many more may be made. */
    private long left;

    /** Of `size` bytes each, and of `most` together; and not of many megabytes. */
    BatchBuffers(int size, long most) {
        this.size = size;
        left = Math.min(most, MOST_BYTES) / size;
    }

    /** A copy of the first bytes of an array: in an array where it is small, or none is left. */
    ByteBuffer copy(byte[] from, int length) {
        return copy(ByteBuffer.wrap(from, 0, length));
    }

    /** The same of what is left in a buffer, which stays as it is. */
    ByteBuffer copy(ByteBuffer from) {
        int length = from.remaining();
        ByteBuffer into = length < LEAST_BYTES || length > size ? null : take();
        if (into == null) {
            into = ByteBuffer.allocate(length);
        }
        return into.clear().put(from.duplicate()).flip();
    }

    /**
     * What `copy` has returned is used again. Not what may still be read: where a request has no
     * answer, a socket may have it yet.
     */
    void give(ByteBuffer copied) {
        if (copied.isDirect()) {
            synchronized (spare) {
                spare.push(copied);
            }
        }
    }

    private ByteBuffer take() {
        synchronized (spare) {
            if (!spare.isEmpty() || left == 0) {
                return spare.poll();
            }
            left--;
        }
        try {
            return ByteBuffer.allocateDirect(size);
        } catch (OutOfMemoryError limited) {
            // Java was given little of such memory: arrays do as well.
            synchronized (spare) {
                left = 0;
            }
            return null;
        }
    }
}
