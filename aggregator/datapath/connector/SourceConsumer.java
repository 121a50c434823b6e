package aggregator.connector;

import java.time.Duration;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.WakeupException;

/**
 * The one consumer of a task: opened apart from the task's thread, replaced after a failure, later
 * each time. It says what an error of the client means for what is read.
 *
 * <p>Only an interrupt is thrown, and what no client should throw. Used by the task's thread;
 * `wake`, `error`, `ends` and the silence of `answers` by any.
 */
final class SourceConsumer {
    /** Makes a consumer; called again after each failure of one. */
    interface Consumers {
        Consumer<byte[], byte[]> open(Map<String, String> settings);

        /** How what a new consumer fetches is read. */
        Fetched reader(Consumer<byte[], byte[]> consumer);

        /** What it knows of its logs; null where that cannot be seen. */
        LogEnds.Sight sight(Consumer<byte[], byte[]> consumer);

        /** Why nothing that the last one polled may be read; null when it may. */
        default String stranger() {
            return null;
        }
    }

    /** The partitions that it reads. */
    interface Reading {
        /** Another consumer is there, and what it fetches is read by this. */
        void opened(Fetched reader);

        /** Has the consumer read what is wanted by now. */
        void assign(Consumer<byte[], byte[]> consumer);

        /** Takes what was polled; whether records are at hand. */
        boolean take(ConsumerRecords<byte[], byte[]> polled);

        /** These logs do not hold their positions; those in `cuts` are others from there on. */
        void outOfRange(Set<TopicPartition> of, Map<TopicPartition, Long> cuts, String why);

        /** These topics may not be read at present. */
        void refused(Set<String> topics, String why);

        /** What was refused is tried again. */
        void readmit();

        /** Whether a failure names a partition, which then stops before what cannot be read. */
        boolean damaged(RuntimeException failure);

        /** What was fetched and not handed out is gone. */
        void lost();
    }

    private static final long FIRST_RETRY_NANOS = 1_000_000_000L;
    private static final long LONGEST_RETRY_NANOS = 10_000_000_000L;
    private static final long WELL_AFTER_NANOS = 10_000_000_000L;
    private static final String WAIT = "fetch.max.wait.ms";
    /** How long a fetch waits where nothing has come for long. */
    private static final int IDLE_WAIT_MS = 1_000;
    /** A broker is late when its answer to a fetch is due for this time. */
    private static final long LATE_MS = 1_500;

    final FetchAnswers answers = new FetchAnswers();
    final LogEnds ends;
    private final Map<String, String> settings;
    private final Consumers consumers;
    private final Reading reading;
    /** Whether the wait of its fetches is ours to choose. */
    private final boolean canWait;
    private volatile Consumer<byte[], byte[]> consumer;
    private LogEnds.Sight sight;
    private Opening opening;
    private long retryAt;
    private long refusedRetryAt;
    private long retryNanos = FIRST_RETRY_NANOS;
    private long failedAt;
    private volatile String error = "";

    SourceConsumer(TaskSpec spec, Consumers consumers, Reading reading) {
        settings = spec.consumer;
        this.consumers = consumers;
        this.reading = reading;
        ends = new LogEnds(spec, lateNanos(settings));
        canWait = !settings.containsKey(WAIT);
    }

    /** Whether there is one by now. */
    boolean isOpen() {
        return consumer != null;
    }

    /**
     * Polls for this long, where a consumer is there or comes to be; whether records are at hand.
     */
    boolean poll(long nanos) {
        long now = System.nanoTime();
        if (retryAt != 0 && now < retryAt) {
            pause(Math.min(nanos, retryAt - now));
            return false;
        }
        if (refusedRetryAt != 0 && now > refusedRetryAt) {
            refusedRetryAt = 0;
            reading.readmit();
        }
        try {
            return fetch(nanos);
        } catch (WakeupException woken) {
            return false;
        } catch (InterruptException ended) {
            throw ended;
        } catch (OffsetOutOfRangeException range) {
            Map<TopicPartition, Long> cuts = new HashMap<>();
            if (range instanceof LogTruncationException cut) {
                cut.divergentOffsets().forEach((of, at) -> cuts.put(of, at.offset()));
            }
            reading.outOfRange(range.offsetOutOfRangePartitions().keySet(), cuts, text(range));
        } catch (TopicAuthorizationException refused) {
            reading.refused(refused.unauthorizedTopics(), text(refused));
            refusedRetryAt = System.nanoTime() + LONGEST_RETRY_NANOS;
        } catch (KafkaException failure) {
            if (!isDamage(failure)) {
                failed(failure);
            }
        } catch (IllegalArgumentException | IllegalStateException failure) {
            // A code of an error that the client does not expect. What it had read of others then
            // is read again.
            if (!isDamage(failure)) {
                throw failure;
            }
        }
        return false;
    }

    private boolean fetch(long nanos) {
        if (consumer == null && !open(nanos)) {
            return false;
        }
        reading.assign(consumer);
        if (consumer.assignment().isEmpty()) {
            pause(nanos);
            return false;
        }
        ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofNanos(nanos));
        String stranger = consumers.stranger();
        if (stranger != null) {
            throw new KafkaException(stranger);
        }
        boolean isMore = reading.take(polled);
        answers.look(isMore);
        well(isMore);
        return isMore;
    }

    /** Has a consumer been opened? Until then the others of this JVM are not waited for. */
    private boolean open(long nanos) {
        if (opening == null) {
            opening = new Opening(consumers, settings);
        }
        try {
            consumer = opening.await(nanos);
        } catch (KafkaException failure) {
            if (!(failure instanceof InterruptException)) {
                opening = null;
            }
            throw failure;
        }
        if (consumer == null) {
            KafkaException late = opening.late();
            if (late != null) {
                note(late);
            }
            return false;
        }
        opening = null;
        answers.follow(consumer);
        reading.opened(consumers.reader(consumer));
        sight = consumers.sight(consumer);
        return true;
    }

    private boolean isDamage(RuntimeException failure) {
        return consumer != null && reading.damaged(failure);
    }

    /** Where it reads on; -1 when that is not certain. Throws what the client does. */
    long readsAt(TopicPartition of) {
        try {
            return consumer.position(of, Duration.ZERO);
        } catch (TimeoutException | WakeupException notNow) {
            return -1;
        }
    }

    /** The same, and -1 as well when it fails by that. */
    long passed(TopicPartition of) {
        try {
            return readsAt(of);
        } catch (InterruptException ended) {
            throw ended;
        } catch (KafkaException failure) {
            failed(failure);
            return -1;
        }
    }

    /**
     * Notes what the answers to fetches say of the logs of the partitions in `read`. While these
     * are `idle` a fetch may wait longer.
     */
    void look(BitSet read, boolean idle, long now) {
        if (sight == null) {
            return;
        }
        ends.look(sight, read, now);
        if (canWait) {
            sight.waitAtLeast(idle ? IDLE_WAIT_MS : 0);
        }
    }

    /** Makes a `poll` that waits return soon. */
    void wake() {
        Consumer<byte[], byte[]> waiting = consumer;
        if (waiting != null) {
            waiting.wakeup();
        }
    }

    /** Why the cluster gives nothing, "" when it does. */
    String error() {
        return error;
    }

    void close() {
        if (opening != null) {
            opening.abandon();
            opening = null;
        }
        if (consumer != null) {
            Consumer<byte[], byte[]> old = consumer;
            consumer = null;
            sight = null;
            ends.forget();
            Opening.close(old);
        }
    }

    /** Everything is tried again with a new consumer, later each time. */
    private void failed(KafkaException failure) {
        note(failure);
        retryAt = failedAt + retryNanos;
        retryNanos = Math.min(2 * retryNanos, LONGEST_RETRY_NANOS);
        reading.readmit();
        reading.lost();
        close();
    }

    private void note(KafkaException failure) {
        error = text(failure);
        failedAt = System.nanoTime();
    }

    private void well(boolean records) {
        if (!error.isEmpty() && (records || System.nanoTime() - failedAt > WELL_AFTER_NANOS)) {
            error = "";
            retryNanos = FIRST_RETRY_NANOS;
        }
    }

    private static String text(Throwable failure) {
        String text = failure.getMessage();
        String said = failure.getClass().getSimpleName() + (text == null ? "" : ": " + text);
        Throwable first = failure;
        while (first.getCause() != null) {
            first = first.getCause();
        }
        // That a client could not be made says nothing without the reason.
        return first == failure ? said : said + ": " + text(first);
    }

    private static long lateNanos(Map<String, String> settings) {
        long wait = IDLE_WAIT_MS;
        try {
            wait = Math.max(wait, Long.parseLong(settings.getOrDefault(WAIT, "0").trim()));
        } catch (NumberFormatException refused) {
            // The consumer refuses it, and says so.
        }
        return (wait + LATE_MS) * 1_000_000;
    }

    private static void pause(long nanos) {
        try {
            Thread.sleep(nanos / 1_000_000, (int) (nanos % 1_000_000));
        } catch (InterruptedException interrupted) {
            throw new InterruptException(interrupted);
        }
    }
}
