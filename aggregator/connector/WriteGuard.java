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
    private static volatile long deadline = Long.MAX_VALUE;

    private WriteGuard() {}

    /** Records are sent until then (ms since 1970) and wait from then on; below 0: never again. */
    public static void until(long millis) {
        deadline = millis;
    }

    /** An executor may send nothing before the driver has answered it once. */
    static void mayAsk(boolean isDriver) {
        if (!isDriver) {
            deadline = 0;
        }
    }

    /** Milliseconds that are left from now on; below 0: never again. */
    static long left() {
        long until = deadline;
        return until < 0 || until == Long.MAX_VALUE ? until
                                                    : Math.max(0, until - DriverClock.own());
    }

    /** A deadline so many milliseconds behind a moment; below 0 stays so, and so does no end. */
    static long plus(long moment, long millis) {
        return millis < 0 || millis == Long.MAX_VALUE ? millis : moment + millis;
    }

    /** Returns when a record may be sent. */
    static void await() {
        while (DriverClock.own() >= deadline) {
            if (deadline < 0) {
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
        deadline = Long.MAX_VALUE;
        FileChannel channel = HELD.remove(file);
        if (channel != null) {
            channel.close();
        }
    }
}
