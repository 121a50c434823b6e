package aggregator.connector;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/**
 * The origin of a batch that was copied as it is, in fields of its own header: the producer id
 * names the source partition, epoch and sequence are the offset of its first record. Pure.
 *
 * <p>A broker assigns ids from 0 on; these have the second highest bit. Below it are a hash of the
 * source partition and the number of a run: a broker accepts sequences of one id only without a
 * gap, so a new run begins behind each.
 */
final class PassedOrigin {
    static final int RUN_BITS = 14;
    private static final long MARK = 1L << 62;
    private static final int HASH_BITS = 48;
    private static final int SEQUENCE_BITS = 31;
    private static final long SEQUENCES = 1L << SEQUENCE_BITS;
    private static final long OFFSETS = SEQUENCES << 15;

    private PassedOrigin() {}

    /** The producer id of a source partition; its run is 0. */
    static long name(String cluster, String topic, int partition) {
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(
                OriginText.place(cluster, topic, partition));
            long first = ByteBuffer.wrap(hash).getLong() >>> (Long.SIZE - HASH_BITS);
            return MARK | first << RUN_BITS;
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** The same name with another run. */
    static long withRun(long name, int run) {
        return nameOf(name) | run & (1 << RUN_BITS) - 1;
    }

    /** Whether a producer id is one of these. */
    static boolean isPassed(long producerId) {
        return producerId >= MARK;
    }

    /** The id without its run. */
    static long nameOf(long producerId) {
        return producerId >>> RUN_BITS << RUN_BITS;
    }

    /** Whether epoch and sequence of a batch can be its offsets. */
    static boolean holds(long first, long last) {
        return first >= 0 && last < OFFSETS && first / SEQUENCES == last / SEQUENCES;
    }

    static short epoch(long offset) {
        return (short) (offset / SEQUENCES);
    }

    static int sequence(long offset) {
        return (int) (offset % SEQUENCES);
    }

    /** The offset of which these are epoch and sequence. */
    static long offset(short epoch, int sequence) {
        return epoch * SEQUENCES + sequence;
    }
}
