package aggregator;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.channels.FileChannel;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.TaskContext;

/** Stops records that must not be sent: of a second attempt, or of a writer without its lease. */
public class WriteGuard {

    private static final Map HELD = new HashMap();
    private static volatile long deadline = Long.MAX_VALUE;

    /** Records are sent until then (ms since 1970) and wait from then on; below 0: never again. */
    public static void until(long millis) {
        deadline = millis;
    }

    static void check() {
        TaskContext task = TaskContext.get();
        // An Error, because the producer logs what an interceptor throws as Exception and goes on.
        if (task != null && (task.attemptNumber() > 0 || task.stageAttemptNumber() > 0)) {
            throw new Error("refused: a second attempt of a task would write its records twice");
        }
        while (System.currentTimeMillis() >= deadline) {
            if (deadline < 0L) {
                throw new Error("refused: another instance writes in place of this one");
            }
            try {
                Thread.sleep(20L);
            } catch (InterruptedException interrupted) {
                throw new Error("refused: ended while it waited for the lease to be renewed");
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
        FileChannel channel = (FileChannel) HELD.remove(file);
        if (channel != null) {
            channel.close();
        }
    }
}
