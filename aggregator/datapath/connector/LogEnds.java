package aggregator.connector;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/**
 * What the answers to fetches say of a task's partitions: where each log ends, since when its
 * broker owes an answer, and how often something spoke for another log.
 *
 * <p>The task's thread looks, any other takes what has changed. No clock: moments are arguments.
 */
public final class LogEnds {
    /** What a consumer knows. By the thread that polls it. */
    public interface Sight {
        /** Where an assigned partition ends for a reader of this isolation; -1 if not known yet. */
        long end(TopicPartition of);

        /** The broker that it is fetched from; -1 for none. */
        int leader(TopicPartition of);

        /** Whether a fetch is on its way to this broker. */
        boolean owes(int node);

        /** How many answers this broker has given. */
        double answers(int node);

        /** The id of a topic; empty where it is not known. */
        String topicId(String topic);

        /** Has fetches wait for records for this time, or as set where that is more. */
        void waitAtLeast(int millis);
    }

    /** A broker, as it was seen last: whether it owes an answer, and since when. */
    private static final class Broker {
        private double answers;
        private boolean isOwing;
        private long since;

        private void look(Sight sight, int node, long now) {
            double count = sight.answers(node);
            if (count != answers) {
                answers = count;
                isOwing = false;
            }
            // One that has failed without an answer is owed all the same.
            if (!isOwing && sight.owes(node)) {
                isOwing = true;
                since = now;
            }
        }
    }

    private final List<TopicPartition> names = new ArrayList<>();
    private final List<String> parts = new ArrayList<>();
    private final long lateNanos;
    private final long[] ends;
    private final long[] doubts;
    /** Of a partition whose broker is late, since when that owes an answer. */
    private final long[] owedSince;
    private final BitSet late = new BitSet();
    private final BitSet leaderless = new BitSet();
    private final long[] leaderlessSince;
    private final Map<Integer, Broker> brokers = new HashMap<>();
    private final Map<String, String> ids = new HashMap<>();
    private final BitSet changed = new BitSet();

    /** A broker is late that owes an answer for more than `lateNanos`. */
    LogEnds(TaskSpec spec, long lateNanos) {
        for (TaskSpec.Part part : spec.parts) {
            names.add(new TopicPartition(part.topic, part.partition));
            parts.add(part.name());
        }
        this.lateNanos = lateNanos;
        ends = new long[parts.size()];
        Arrays.fill(ends, -1);
        doubts = new long[ends.length];
        owedSince = new long[ends.length];
        leaderlessSince = new long[ends.length];
    }

    /** Of partitions that are not in `read` nothing is known. */
    synchronized void look(Sight sight, BitSet read, long now) {
        brokers.forEach((node, it) -> it.look(sight, node, now));
        Set<String> others = others(sight, read);
        for (int i = 0; i < ends.length; i++) {
            if (!read.get(i)) {
                drop(i);
                continue;
            }
            TopicPartition name = names.get(i);
            int leader = sight.leader(name);
            // Without a leader nothing is fetched. Its topic may be gone.
            long end = leader < 0 ? -1 : sight.end(name);
            if (others.contains(name.topic()) || end >= 0 && end < ends[i]) {
                doubts[i]++;
                changed.set(i);
            }
            note(i, end);
            if (leader >= 0) {
                leaderless.clear(i);
                Broker of = broker(sight, leader, now);
                late(i, of.isOwing, of.since, now);
            } else {
                if (!leaderless.get(i)) {
                    leaderless.set(i);
                    leaderlessSince[i] = late.get(i) ? owedSince[i] : now;
                }
                late(i, true, leaderlessSince[i], now);
            }
        }
    }

    /** Nothing is known any more: its consumer is closed. */
    synchronized void forget() {
        brokers.clear();
        for (int i = 0; i < ends.length; i++) {
            drop(i);
        }
    }

    /**
     * What has changed since the last call, by the names of partitions: the end, or -1 where it is
     * not known; for how many milliseconds its broker owes an answer, or -1
     * where it is not late; and how often the log has seemed to be another one.
     */
    synchronized Map<String, long[]> take(long now) {
        if (changed.isEmpty()) {
            return Map.of();
        }
        Map<String, long[]> found = new HashMap<>();
        changed.stream().forEach(i -> {
            long owed = late.get(i) ? (now - owedSince[i]) / 1_000_000 : -1;
            found.put(parts.get(i), new long[] {ends[i], owed, doubts[i]});
        });
        changed.clear();
        return found;
    }

    /** What was taken has not arrived. */
    synchronized void again() {
        changed.set(0, ends.length);
    }

    /** The topics whose id has changed since it was seen first. */
    private Set<String> others(Sight sight, BitSet read) {
        Set<String> found = new HashSet<>();
        Set<String> seen = new HashSet<>();
        for (int i = read.nextSetBit(0); i >= 0; i = read.nextSetBit(i + 1)) {
            String topic = names.get(i).topic();
            if (seen.add(topic)) {
                String id = sight.topicId(topic);
                String before = id.isEmpty() ? null : ids.put(topic, id);
                if (before != null && !before.equals(id)) {
                    found.add(topic);
                }
            }
        }
        return found;
    }

    private Broker broker(Sight sight, int node, long now) {
        return brokers.computeIfAbsent(node, key -> {
            Broker made = new Broker();
            made.look(sight, node, now);
            return made;
        });
    }

    private void drop(int i) {
        note(i, -1);
        leaderless.clear(i);
        late(i, false, 0, 0);
    }

    private void note(int i, long end) {
        if (end != ends[i]) {
            ends[i] = end;
            changed.set(i);
        }
    }

    private void late(int i, boolean isOwing, long owing, long now) {
        boolean isLate = isOwing && now - owing > lateNanos;
        long since = isLate ? owing : 0;
        if (isLate != late.get(i) || since != owedSince[i]) {
            late.set(i, isLate);
            owedSince[i] = since;
            changed.set(i);
        }
    }
}
