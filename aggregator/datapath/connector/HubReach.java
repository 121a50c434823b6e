package aggregator.connector;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;

/**
 * How far a hub partition reaches, by what it has acknowledged to any task of a lane in this JVM;
 * and which were cut off, as by an unclean election. By any thread.
 *
 * <p>What is handed over after an acknowledgement lies behind it, whichever task had it. An offset
 * before it proves that the hub has lost what it had acknowledged.
 */
final class HubReach {
    /** The partition holds nothing of its former log from this offset on, and perhaps less. */
    record Cut(String topic, int partition, long offset) {}

    /** By the lives of lanes, and by topics and partitions. */
    private static final Map<String, Map<String, HubReach>> ALL = new ConcurrentHashMap<>();
    private static final Queue<Cut> CUTS = new ConcurrentLinkedQueue<>();

    private final String topic;
    private final int partition;
    private final AtomicLong end = new AtomicLong();
    private volatile boolean isCut;

    private HubReach(String topic, int partition) {
        this.topic = topic;
        this.partition = partition;
    }

    /** That of a lane's life: by the next one the hub was read, and may be another one. */
    static HubReach of(String laneKey, String topic, int partition) {
        return ALL.computeIfAbsent(laneKey, key -> new ConcurrentHashMap<>())
            .computeIfAbsent(topic + "-" + partition, name -> new HubReach(topic, partition));
    }

    /** No other lives of lanes than these count any more. */
    static void keep(Collection<String> laneKeys) {
        ALL.keySet().retainAll(laneKeys);
    }

    /** The NEXT offset behind all that was acknowledged. */
    long end() {
        return end.get();
    }

    void acknowledged(long next) {
        if (next > end.get()) {
            end.accumulateAndGet(next, Math::max);
        }
    }

    /** Whether any partition was cut off in this life of a lane. */
    static boolean isCut(String laneKey) {
        return ALL.getOrDefault(laneKey, Map.of()).values().stream().anyMatch(it -> it.isCut);
    }

    /** The log is another one from this offset on. */
    void cutOff(long offset) {
        isCut = true;
        end.set(offset);
        CUTS.add(new Cut(topic, partition, offset));
    }

    /** What was cut off since it was asked for last. */
    static List<Cut> take() {
        List<Cut> taken = new ArrayList<>();
        for (Cut each = CUTS.poll(); each != null; each = CUTS.poll()) {
            taken.add(each);
        }
        return taken;
    }

    /** What was taken has not arrived. */
    static void again(Collection<Cut> cuts) {
        CUTS.addAll(cuts);
    }

    /** Nothing is known of an earlier Spark context of this JVM any more. */
    static void reset() {
        ALL.clear();
        CUTS.clear();
    }

    @Override
    public String toString() {
        return topic + "-" + partition;
    }
}
