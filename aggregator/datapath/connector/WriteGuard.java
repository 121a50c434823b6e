package aggregator.connector;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.channels.FileChannel;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.errors.InterruptException;

/**
 * Until when this JVM may send: the lease of the one writer. A record waits when it is over, so
 * that an instance that was frozen sends nothing before it knows that no other one writes in its
 * place.
 *
 * <p>The driver's is set by Python. An executor gets what is left of it with each answer, counted
 * from the moment at which it asked, so the clocks of machines are never compared.
 */
public final class WriteGuard {
    private static final long WAIT_MS = 20;
    private static final Map<String, FileChannel> HELD = new HashMap<>();
    private static final Lease ENDLESS = new Lease(Long.MAX_VALUE, 0);
    private static volatile Lease lease = ENDLESS;

    /**
     * Until when records may be sent, by both clocks of this machine: the wall's may be set back,
     * and the other one may stand still while the machine sleeps. The earlier end counts.
     */
    private record Lease(long millis, long nanos) {
        /** In milliseconds; below 0: never again. */
        long left() {
            if (millis < 0 || this == ENDLESS) {
                return millis;
            }
            long steady = (nanos - System.nanoTime()) / 1_000_000;
            return Math.max(0, Math.min(millis - DriverClock.own(), steady));
        }
    }

    private WriteGuard() {}

    /**
     * Records are sent until then (ms since 1970), and for `left` ms from now on at most, and wait
     * from then on; below 0: never again.
     */
    public static void until(long millis, long left) {
        lease = new Lease(millis, System.nanoTime() + left * 1_000_000);
    }

    /** For this long (ms) from a moment by both clocks on; below 0: never again. */
    static void grant(long millis, long wall, long nanos) {
        if (millis == Long.MAX_VALUE) {
            lease = ENDLESS;
        } else {
            lease = new Lease(millis < 0 ? millis : wall + millis, nanos + millis * 1_000_000);
        }
    }

    /** An executor may send nothing before the driver has answered it once. */
    static void mayAsk(boolean isDriver) {
        if (!isDriver) {
            until(0, 0);
        }
    }

    /** Milliseconds that are left from now on; below 0: never again. */
    static long left() {
        return lease.left();
    }

    /** Returns when a record may be sent. */
    static void await() {
        for (long left = left(); left <= 0; left = left()) {
            if (left < 0) {
                throw new IllegalStateException(
                    "refused: another instance writes in place of this one");
            }
            try {
                Thread.sleep(WAIT_MS);
            } catch (InterruptedException interrupted) {
                throw new InterruptException(interrupted);
            }
        }
    }

    /** Locks a file for the life of this JVM; false while another process has it. */
    public static synchronized boolean hold(String file) throws IOException {
        if (!HELD.containsKey(file)) {
            FileChannel channel = new RandomAccessFile(file, "rw").getChannel();
            if (channel.tryLock() == null) {
                channel.close();
                return false;
            }
            HELD.put(file, channel);
        }
        return true;
    }

    /** Gives the lock of `hold` back, and lets records through as if there were no lease. */
    public static synchronized void free(String file) throws IOException {
        lease = ENDLESS;
        FileChannel channel = HELD.remove(file);
        if (channel != null) {
            channel.close();
        }
    }
}
