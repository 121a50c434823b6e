package aggregator.connector;

import java.util.Map;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.errors.InterruptException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The producers by which a task writes to the hub: the usual one, and two that are opened when they
 * are needed.
 *
 * <p>Opened and renewed by the task's thread; closed by that of a producer as well.
 */
final class HubProducers {
    /** By which of them something goes; {@link HubWriter} says what they are for. */
    enum Way { USUAL, NUMBERED, CAREFUL }

    /** Makes a producer. */
    interface Opener {
        Producer<byte[], byte[]> open(Map<String, String> settings);
    }

    private static final Logger LOG = LoggerFactory.getLogger(HubProducers.class);

    private static final String SPLITS = "batch-split-total";

    private final TaskSpec spec;
    private final Opener opener;
    private volatile Producer<byte[], byte[]> usual;
    private Metric retries;
    private Metric usualFree;
    private Metric splits;
    private volatile Producer<byte[], byte[]> numbered;
    private Metric numberedRetries;
    private volatile Producer<byte[], byte[]> careful;
    private Metric carefulFree;
    private Metric carefulSplits;
    /** Of the producers before these. */
    private long retriedBefore;
    /** The one that was closed last, while no other one is in its place. */
    private volatile Producer<byte[], byte[]> left;

    HubProducers(TaskSpec spec, Opener opener) {
        this.spec = spec;
        this.opener = opener;
        openUsual();
    }

    private void openUsual() {
        Producer<byte[], byte[]> made = opener.open(spec.producer);
        TopicsAhead.learn(made, spec.hubTopics());
        synchronized (this) {
            retriedBefore += count(retries);
            retries = metric(made, "record-retry-total");
        }
        usualFree = metric(made, "buffer-available-bytes");
        splits = metric(made, SPLITS);
        usual = made;
    }

    /** One of them, opened if it is not. */
    Producer<byte[], byte[]> get(Way way) {
        return switch (way) {
            case USUAL -> usual;
            case NUMBERED -> numbered();
            case CAREFUL -> careful();
        };
    }

    boolean hasCareful() {
        return careful != null;
    }

    /** Records that the hub answered with an error and that were sent again, as Kafka counts. */
    synchronized long retried() {
        return retriedBefore + count(retries) + count(numberedRetries);
    }

    /** How many batches those that are open have taken apart, as the hub called them too large. */
    long splits() {
        return count(splits) + count(carefulSplits);
    }

    /** Bytes that are free in their buffers for records, where least are. */
    long free() {
        double least = ((Number) usualFree.metricValue()).doubleValue();
        if (careful != null) {
            least = Math.min(least, ((Number) carefulFree.metricValue()).doubleValue());
        }
        return (long) least;
    }

    /**
     * Closes one, unless that was done and it was not renewed since. By a producer's own thread,
     * which cannot wait for its end.
     */
    void closeOnce(Way way) {
        Producer<byte[], byte[]> producer = opened(way);
        if (left != producer) {
            left = producer;
            close(producer);
        }
    }

    /** Forgets one that was closed, so that the next of its kind is another one. */
    void renew(Way way) {
        left = null;
        switch (way) {
            case USUAL -> openUsual();
            case NUMBERED -> forgetNumbered();
            case CAREFUL -> {
                careful = null;
                carefulFree = null;
                carefulSplits = null;
            }
        }
    }

    /** Closes one that is open, at once. By the task's thread: then no thread of it is left. */
    void close(Way way) {
        Producer<byte[], byte[]> producer = opened(way);
        left = producer;
        close(producer);
    }

    void closeAll() {
        for (Way way : Way.values()) {
            if (opened(way) != null) {
                close(way);
            }
        }
    }

    /** The one that is open; null where there is none. */
    private Producer<byte[], byte[]> opened(Way way) {
        return switch (way) {
            case USUAL -> usual;
            case NUMBERED -> numbered;
            case CAREFUL -> careful;
        };
    }

    private Producer<byte[], byte[]> numbered() {
        if (numbered == null) {
            Producer<byte[], byte[]> made = opener.open(spec.numbered);
            synchronized (this) {
                numberedRetries = metric(made, "record-retry-total");
            }
            numbered = made;
        }
        return numbered;
    }

    private Producer<byte[], byte[]> careful() {
        if (careful == null) {
            careful = opener.open(spec.careful);
            carefulFree = metric(careful, "buffer-available-bytes");
            carefulSplits = metric(careful, SPLITS);
        }
        return careful;
    }

    private synchronized void forgetNumbered() {
        retriedBefore += count(numberedRetries);
        numberedRetries = null;
        numbered = null;
    }

    private static long count(Metric metric) {
        return metric == null ? 0 : ((Number) metric.metricValue()).longValue();
    }

    private static void close(Producer<byte[], byte[]> producer) {
        boolean interrupted = false;
        while (true) {
            try {
                producer.close(java.time.Duration.ZERO);
                break;
            } catch (InterruptException again) {
                // Its thread may still be there: it is waited for.
                interrupted |= Thread.interrupted();
            } catch (RuntimeException broken) {
                LOG.warn("a producer does not close well: {}", broken.toString());
                break;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static Metric metric(Producer<byte[], byte[]> producer, String name) {
        return producer.metrics()
            .values()
            .stream()
            .filter(it -> it.metricName().name().equals(name))
            .filter(it -> it.metricName().group().equals("producer-metrics"))
            .findFirst()
            .orElseThrow();
    }
}
