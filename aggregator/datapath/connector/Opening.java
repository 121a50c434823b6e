package aggregator.connector;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Opens and closes consumers in threads of their own: a login that hangs is not to hold its task.
 *
 * <p>A new client logs in, and finds its brokers by their names, before its constructor returns;
 * and all of a JVM log in and out one after the other. So there is no limit to what one may take.
 * What has begun is waited for: a thread that hangs is not joined by another one.
 */
final class Opening {
    private static final Logger LOG = LoggerFactory.getLogger(Opening.class);
    /** As a rule it takes less, and then the caller just waits. */
    private static final long PATIENCE_MS = 50;
    private static final long LATE_NANOS = 5_000_000_000L;

    private final CompletableFuture<Consumer<byte[], byte[]>> opened = new CompletableFuture<>();
    private final long began = System.nanoTime();

    Opening(SourceConsumer.Consumers consumers, Map<String, String> settings) {
        apart("aggregator-open", () -> {
            try {
                Consumer<byte[], byte[]> consumer = consumers.open(settings);
                if (!opened.complete(consumer)) {
                    consumer.close(Duration.ZERO);
                }
            } catch (Throwable failure) {
                opened.completeExceptionally(failure);
            }
        });
    }

    /** The consumer; null when there is none yet after that time. Throws what it failed with. */
    Consumer<byte[], byte[]> await(long nanos) {
        try {
            long patience = Math.max(nanos, PATIENCE_MS * 1_000_000);
            return opened.get(patience, TimeUnit.NANOSECONDS);
        } catch (java.util.concurrent.TimeoutException notYet) {
            return null;
        } catch (InterruptedException interrupted) {
            throw new InterruptException(interrupted);
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof KafkaException failure) {
                throw failure;
            }
            throw new IllegalStateException(failed.getCause());
        }
    }

    /** Why it is late; null while it is not. */
    KafkaException late() {
        return System.nanoTime() - began < LATE_NANOS
            ? null
            : new TimeoutException(
                  "a client does not come to be: it may wait for a log in, a token or a name");
    }

    /** It is no longer needed. */
    void abandon() {
        if (!opened.cancel(false) && !opened.isCompletedExceptionally()) {
            close(opened.join());
        }
    }

    /** Closes a consumer; returns when that is done, and soon. */
    static void close(Consumer<byte[], byte[]> consumer) {
        Thread thread = apart("aggregator-close", () -> {
            try {
                consumer.close(Duration.ZERO);
            } catch (RuntimeException failure) {
                LOG.warn("a consumer was not closed: {}", failure.toString());
            }
        });
        try {
            thread.join(PATIENCE_MS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static Thread apart(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }
}
