package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertSame;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.function.IntSupplier;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;

/** A source cluster: logs of partitions, and consumers that read them as Kafka's do. */
final class SourceLog implements SourceConsumer.Consumers {
    /** What one partition holds: from `start` on, up to and without `end`. */
    private static final class Log {
        private final TreeMap<Long, ConsumerRecord<byte[], byte[]>> records = new TreeMap<>();
        private long start;
        private long end;
    }

    private final Map<TopicPartition, Log> logs = new HashMap<>();
    /** Topics that may not be read. */
    final Set<String> refused = new HashSet<>();
    /** Of the leader that takes the records from now on. */
    int epoch;
    /** Where a record cannot be read. */
    final Map<TopicPartition, Long> damaged = new HashMap<>();
    /** From where on a log is another one than its readers have read. */
    final Map<TopicPartition, Long> cuts = new HashMap<>();
    /** Until this is counted down no consumer is made. */
    CountDownLatch login = new CountDownLatch(0);
    /** What the next consumers to be made fail with; null for one that is made. */
    final Deque<KafkaException> openFailures = new ArrayDeque<>();
    /** Every consumer that was made, and the settings that it was made with. */
    final List<Reader> opened = new ArrayList<>();
    final List<Map<String, String>> settings = new ArrayList<>();
    /** How many records of a partition a poll returns at most. */
    IntSupplier atOnce = () -> 500;
    /** How many fetches it has answered, as consumers count them. */
    double answers;
    /** How what its consumers fetch is read, if not as records. */
    Fetched fetched;
    /** Counted down when a consumer is polled that waits until it is woken. */
    CountDownLatch waiting;

    /** Appends records with no key and an empty value, at these offsets. */
    SourceLog with(String topic, int partition, long... offsets) {
        for (long offset : offsets) {
            add(topic, partition, offset, null);
        }
        return this;
    }

    void add(String topic, int partition, long offset, byte[] key) {
        Log log = log(topic, partition);
        log.records.put(
            offset,
            new ConsumerRecord<>(
                topic,
                partition,
                offset,
                0,
                TimestampType.CREATE_TIME,
                key == null ? -1 : key.length,
                0,
                key,
                new byte[0],
                new RecordHeaders(),
                Optional.of(epoch)));
        log.end = Math.max(log.end, offset + 1);
    }

    /** What lies between the last record and this end are markers, or was compacted away. */
    void end(String topic, int partition, long end) {
        log(topic, partition).end = end;
    }

    /** What lies before this offset is deleted. */
    void start(String topic, int partition, long start) {
        Log log = log(topic, partition);
        log.start = start;
        log.records.headMap(start).clear();
    }

    @Override
    public Reader open(Map<String, String> given) {
        try {
            login.await();
        } catch (InterruptedException interrupted) {
            throw new AssertionError(interrupted);
        }
        settings.add(given);
        KafkaException failure = openFailures.poll();
        if (failure != null) {
            throw failure;
        }
        Reader reader = new Reader();
        opened.add(reader);
        return reader;
    }

    @Override
    public LogEnds.Sight sight(Consumer<byte[], byte[]> consumer) {
        return null;
    }

    @Override
    public Fetched reader(Consumer<byte[], byte[]> consumer) {
        assertSame(reader(), consumer);
        return fetched == null ? new Fetched.Objects() : fetched;
    }

    /** The consumer that was made last. */
    Reader reader() {
        return opened.get(opened.size() - 1);
    }

    private Log log(String topic, int partition) {
        return logs.computeIfAbsent(new TopicPartition(topic, partition), tp -> new Log());
    }

    /** Reads the logs from the positions that it was asked to seek to. */
    final class Reader extends MockConsumer<byte[], byte[]> {
        /** How often it was assigned partitions. */
        int assigned;
        /** The epochs of its last seeks. */
        final Map<TopicPartition, Optional<Integer>> epochs = new HashMap<>();
        /** What it throws when it is asked for a position the next time. */
        KafkaException positionFailure;
        /** Partitions whose position is not certain at present, as their leader does not answer. */
        final Set<TopicPartition> uncertain = new HashSet<>();
        /** How long its end was waited for. */
        Duration closing;
        private boolean woken;

        private Reader() {
            super(OffsetResetStrategy.NONE);
        }

        @Override
        public synchronized void assign(Collection<TopicPartition> partitions) {
            super.assign(partitions);
            assigned++;
        }

        @Override
        public synchronized void seek(TopicPartition partition, OffsetAndMetadata offset) {
            super.seek(partition, offset);
            epochs.put(partition, offset.leaderEpoch());
        }

        @Override
        public synchronized ConsumerRecords<byte[], byte[]> poll(Duration timeout) {
            if (waiting != null) {
                awaitWakeup();
            }
            // A wakeup or an exception that it has to throw comes first.
            super.poll(timeout);
            for (TopicPartition each : assignment()) {
                check(each);
            }
            for (TopicPartition each : assignment()) {
                int most = atOnce.getAsInt();
                Log log = logs.getOrDefault(each, new Log());
                log.records.headMap(damaged.getOrDefault(each, Long.MAX_VALUE))
                    .tailMap(position(each))
                    .values()
                    .stream()
                    .limit(most)
                    .forEach(this::addRecord);
            }
            ConsumerRecords<byte[], byte[]> found = super.poll(timeout);
            for (TopicPartition each : assignment()) {
                Log log = logs.getOrDefault(each, new Log());
                if (position(each) < log.end && log.records.tailMap(position(each)).isEmpty()) {
                    seek(each, log.end);
                }
            }
            return found;
        }

        @Override
        public synchronized Map<MetricName, ? extends Metric> metrics() {
            MetricName name =
                new MetricName("fetch-total", "consumer-fetch-manager-metrics", "", Map.of());
            return Map.of(name, new Metric() {
                @Override
                public MetricName metricName() {
                    return name;
                }

                @Override
                public Object metricValue() {
                    return answers;
                }
            });
        }

        @Override
        public synchronized long position(TopicPartition partition, Duration timeout) {
            if (positionFailure != null) {
                throw positionFailure;
            }
            if (uncertain.contains(partition)) {
                throw new TimeoutException("the position could not be determined");
            }
            return super.position(partition, timeout);
        }

        @Override
        public synchronized void close(Duration timeout) {
            super.close(timeout);
            closing = timeout;
        }

        @Override
        public synchronized void wakeup() {
            super.wakeup();
            woken = true;
            notifyAll();
        }

        private void check(TopicPartition each) {
            if (refused.contains(each.topic())) {
                throw new TopicAuthorizationException(Set.of(each.topic()));
            }
            Log log = logs.getOrDefault(each, new Log());
            long at = position(each);
            if (cuts.getOrDefault(each, Long.MAX_VALUE) < at) {
                throw new LogTruncationException(
                    Map.of(each, at), Map.of(each, new OffsetAndMetadata(cuts.get(each))));
            }
            if (damaged.getOrDefault(each, -1L) == at) {
                throw new KafkaException(
                    "Received exception when fetching the next record from " + each
                        + ". If needed, please seek past the record to continue consumption.",
                    new KafkaException("Record batch for partition " + each + " is invalid"));
            }
            if (at < log.start || at > log.end) {
                throw new OffsetOutOfRangeException(Map.of(each, at));
            }
        }

        private void awaitWakeup() {
            waiting.countDown();
            try {
                while (!woken) {
                    wait();
                }
            } catch (InterruptedException interrupted) {
                throw new AssertionError(interrupted);
            }
            woken = false;
        }
    }
}
