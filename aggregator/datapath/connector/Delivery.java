package aggregator.connector;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * What a task notes of a record or a batch on its way to the hub, and does when it has arrived: its
 * epoch, the claims of its events, and how long its records took.
 *
 * <p>Filled by the task's thread before it is handed over, read by a producer's.
 */
final class Delivery extends HubWriter.Sent {
    /** What learns of a claim whose record has arrived, and that hub offset `end` is behind it. */
    interface Arrivals {
        void arrived(int part, Claims.Claim claim, int partition, long end);
    }

    /** What is counted of all that has arrived. */
    record Counters(Histogram flight, Histogram age, Arrivals claims) {}

    private record Claimed(int part, Claims.Claim claim, int at) {}

    private static final int FEW = 4;

    private final int place;
    private final Points.Epoch epoch;
    private final long polledAt;
    private final Counters counters;
    /** Records in a row with the same timestamp and part are one run; and where it ends. */
    private long[] timestamps = new long[FEW];
    private int[] partOf = new int[FEW];
    private int[] ends = new int[FEW];
    private int runs;
    private int count;
    private List<Claimed> claims = List.of();

    Delivery(int place, Points.Epoch epoch, long polledAt, Counters counters) {
        this.place = place;
        this.epoch = epoch;
        this.polledAt = polledAt;
        this.counters = counters;
    }

    /** A record goes with it, behind those before; its claim is null where it has none. */
    void add(int part, long timestamp, Claims.Claim claim) {
        int last = runs - 1;
        if (last < 0 || timestamps[last] != timestamp || partOf[last] != part) {
            last = begin(part, timestamp);
        }
        if (claim != null) {
            if (claims.isEmpty()) {
                claims = new ArrayList<>();
            }
            claims.add(new Claimed(part, claim, count));
        }
        ends[last] = ++count;
    }

    private int begin(int part, long timestamp) {
        parts.set(part);
        if (runs == timestamps.length) {
            timestamps = Arrays.copyOf(timestamps, 2 * runs);
            partOf = Arrays.copyOf(partOf, 2 * runs);
            ends = Arrays.copyOf(ends, 2 * runs);
        }
        timestamps[runs] = timestamp;
        partOf[runs] = part;
        return runs++;
    }

    /** A whole batch goes with it, and nothing else. Its records count as new as the newest one. */
    void addAll(int part, long newest, int records) {
        count = records;
        int only = begin(part, newest);
        ends[only] = count;
    }

    /** What goes of it with a batch of `records` records, of which the first has this number. */
    Delivery part(int from, int records) {
        Delivery own = new Delivery(place, epoch, polledAt, counters);
        int next = 0;
        while (next < claims.size() && claims.get(next).at() < from) {
            next++;
        }
        int run = 0;
        for (int i = from; i < from + records; i++) {
            while (ends[run] <= i) {
                run++;
            }
            boolean isClaimed = next < claims.size() && claims.get(next).at() == i;
            own.add(partOf[run], timestamps[run], isClaimed ? claims.get(next++).claim() : null);
        }
        return own;
    }

    @Override
    int count() {
        return count;
    }

    @Override
    void arrived(RecordMetadata metadata) {
        long now = DriverClock.now();
        counters.flight.add(now - polledAt, count);
        counters.age.addAges(timestamps, ends, runs, now);
        long first = metadata.offset();
        // First: what a report point covers has to be held.
        for (Claimed each : claims) {
            long end = first < 0 ? 0 : first + each.at() + 1;
            counters.claims.arrived(each.part(), each.claim(), metadata.partition(), end);
        }
        epoch.acknowledge(place, first < 0 ? 0 : first + count, count);
    }

    @Override
    void lost() {
        epoch.lose(place, count);
    }
}
