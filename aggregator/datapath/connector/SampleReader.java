package aggregator.connector;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.TopicAuthorizationException;

/**
 * Reads single records of one source, by their offsets: of each partition one after the other, of
 * all partitions at once. What goes wrong is a value: nothing is thrown but CancellationException.
 */
final class SampleReader {
    private static final Duration POLL = Duration.ofMillis(50);

    final List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
    /** Partitions that cannot be answered now, and why. */
    final Map<TopicPartition, String> silent = new HashMap<>();
    /** Where the logs end of which no record was found. */
    final Map<TopicPartition, Long> ends = new HashMap<>();

    private final Map<TopicPartition, Deque<Long>> left = new LinkedHashMap<>();
    private final Map<TopicPartition, Integer> counts = new HashMap<>();
    private final int enough;
    private final long silenceNanos;
    private final BooleanSupplier cancelled;
    private Set<TopicPartition> assigned = Set.of();
    private int most = Integer.MAX_VALUE;
    private long heard = System.nanoTime();

    /**
     * Of each partition `enough` of the wanted offsets are read, in their order; what is not there
     * does not count. After this long a silence the source gives no answer.
     */
    SampleReader(
        Map<TopicPartition, List<Long>> wanted,
        int enough,
        long silenceMs,
        BooleanSupplier cancelled) {
        wanted.forEach((tp, offsets) -> left.put(tp, new ArrayDeque<>(offsets)));
        left.values().removeIf(Deque::isEmpty);
        left.keySet().forEach(tp -> counts.put(tp, 0));
        this.enough = enough;
        silenceNanos = silenceMs * 1_000_000;
        this.cancelled = cancelled;
    }

    void read(Supplier<? extends Consumer<byte[], byte[]>> open) {
        Consumer<byte[], byte[]> source = null;
        try {
            source = open.get();
            heard = System.nanoTime();
            while (!left.isEmpty()) {
                if (cancelled.getAsBoolean()) {
                    throw new CancellationException("stopped while a source was read");
                }
                if (System.nanoTime() - heard > silenceNanos) {
                    giveUp(left.keySet(), "it gives no answer");
                    break;
                }
                assign(source);
                step(source);
            }
            askEnds(source);
        } catch (CancellationException stopped) {
            throw stopped;
        } catch (RuntimeException failed) {
            giveUp(left.keySet(), words(failed));
        } finally {
            if (source != null) {
                source.close(Duration.ZERO);
            }
        }
    }

    /** Reads as many partitions at once as go; fewer while one of them cannot be read. */
    private void assign(Consumer<byte[], byte[]> source) {
        Set<TopicPartition> next = new HashSet<>();
        for (TopicPartition tp : left.keySet()) {
            if (next.size() == most) {
                break;
            }
            next.add(tp);
        }
        if (!next.equals(assigned)) {
            source.assign(next);
            for (TopicPartition tp : next) {
                if (!assigned.contains(tp)) {
                    source.seek(tp, left.get(tp).peek());
                }
            }
            assigned = next;
        }
    }

    private void step(Consumer<byte[], byte[]> source) {
        ConsumerRecords<byte[], byte[]> polled;
        try {
            polled = source.poll(POLL);
        } catch (OffsetOutOfRangeException gone) {
            gone.offsetOutOfRangePartitions().keySet().forEach(tp -> next(source, tp));
            return;
        } catch (TopicAuthorizationException refused) {
            Set<TopicPartition> all = new HashSet<>(left.keySet());
            all.removeIf(tp -> !refused.unauthorizedTopics().contains(tp.topic()));
            if (all.isEmpty()) {
                throw refused;
            }
            giveUp(all, words(refused));
            return;
        } catch (AuthenticationException | AuthorizationException refused) {
            throw refused;
        } catch (KafkaException | IllegalStateException | IllegalArgumentException damaged) {
            // The latter two are codes of errors that the client does not expect.
            if (assigned.size() == 1) {
                next(source, assigned.iterator().next());
            } else {
                most = assigned.size() / 2;
            }
            return;
        }
        for (TopicPartition tp : assigned) {
            look(source, tp, polled.records(tp), polled.isEmpty());
        }
    }

    private void look(
        Consumer<byte[], byte[]> source,
        TopicPartition tp,
        List<ConsumerRecord<byte[], byte[]>> records,
        boolean idle) {
        long target = left.get(tp).peek();
        if (!records.isEmpty()) {
            if (records.get(0).offset() == target) {
                found.add(records.get(0));
                counts.merge(tp, 1, Integer::sum);
            }
            next(source, tp);
        } else if (source.position(tp) > target || (idle && source.currentLag(tp).orElse(1) == 0)) {
            next(source, tp);
        }
    }

    /** Continues with the next offset of a partition, if it needs one. */
    private void next(Consumer<byte[], byte[]> source, TopicPartition tp) {
        heard = System.nanoTime();
        Deque<Long> offsets = left.get(tp);
        offsets.poll();
        if (offsets.isEmpty() || counts.get(tp) >= enough) {
            left.remove(tp);
            most = most > Integer.MAX_VALUE / 2 ? most : most * 2;
        } else {
            source.seek(tp, offsets.peek());
        }
    }

    private void askEnds(Consumer<byte[], byte[]> source) {
        Set<TopicPartition> none = new HashSet<>(counts.keySet());
        none.removeIf(tp -> counts.get(tp) > 0 || silent.containsKey(tp));
        if (none.isEmpty()) {
            return;
        }
        try {
            ends.putAll(source.endOffsets(none, Duration.ofNanos(silenceNanos)));
        } catch (KafkaException failed) {
            giveUp(none, words(failed));
        }
    }

    private void giveUp(Collection<TopicPartition> partitions, String why) {
        for (TopicPartition tp : List.copyOf(partitions)) {
            silent.put(tp, why);
            left.remove(tp);
        }
    }

    private static String words(RuntimeException failed) {
        return failed.getMessage() == null ? failed.toString() : failed.getMessage();
    }
}
