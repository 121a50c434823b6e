package aggregator.connector;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.header.Headers;
import org.apache.spark.SparkEnv;

/**
 * All that a task of a lane owns: its consumer, its producer, positions, report points, counters.
 *
 * <p>A task's reader and writer run in one thread, in turn: when the reader is asked for the next
 * record, every one before it has been sent or dropped. So positions are exact at any such moment.
 * It is kept from one batch to the next, and leased by one attempt of a Spark task at a time. What
 * fails at the hub ends it at once, and nothing of it is sent later.
 */
final class LaneTask {
    /** How often positions become a report point. */
    private static final long POINT_NANOS = 500_000_000L;
    /** The shortest wait for records; the longest one while batches wait for answers. */
    private static final long LEAST_WAIT_NANOS = 1_000_000;
    /** The same while nothing comes: there is little to report. */
    private static final long IDLE_POINT_NANOS = 1_000_000_000L;
    /** After this time without a record it is idle. */
    private static final long IDLE_AFTER_NANOS = 5_000_000_000L;
    /** Records between two looks at the clocks while more are at hand. */
    private static final int RECORDS_PER_LOOK = 128;
    /** As many of these is a batch that goes as it is. */
    private static final int LOOKS_PER_BATCH = 15;
    private static final long ENDED_SLICE_MS = 20;
    /** Much longer than from one batch to the next. */
    private static final long FORGOTTEN_NANOS = 10_000_000_000L;
    private static final long SLOW_SLICE_MS = 50;
    private static final long FLUSH_SLICE_MS = 2;

    private static final Map<String, LaneTask> OPEN = new ConcurrentHashMap<>();
    private static final Map<Long, LaneTask> LEASED = new ConcurrentHashMap<>();

    final TaskSpec spec;
    private final Feed feed;
    private final HubWriter hub;
    private final Points points;
    private final TaskReport.Topics topics;
    /** Why records are copied as objects; empty where they are copied as bytes. */
    private final String objects;
    private final RecordSender sender;
    private int untilLook;
    private long nextPoint;
    private Orders orders = Orders.NONE;
    /** Below 0 where none has it. Other threads look at it, too. */
    private volatile long attempt = -1;
    private volatile long releasedAt = System.nanoTime();
    private volatile boolean closed;
    private volatile boolean ended;
    private volatile boolean idle;
    /** Whether records have come since the last point. */
    private boolean came;
    private long cameAt = System.nanoTime();

    private LaneTask(TaskSpec spec, long[] positions) {
        this.spec = spec;
        topics = new TaskReport.Topics(spec);
        objects = spec.objects.isEmpty() ? KafkaShape.misfit() : spec.objects;
        TaskClients clients = new TaskClients(spec, objects.isEmpty(), KafkaShape.misfit());
        feed = new Feed(spec, positions, clients);
        points = new Points(positions, feed.states, spec.placeTopics.size(), spec.snapshot, now());
        HubProducers producers = new HubProducers(spec, clients::producer);
        hub = new HubWriter(spec, producers, feed::wake, now());
        sender = new RecordSender(spec, objects.isEmpty(), feed, hub, points);
    }

    /** The task for an attempt: the one of the batch before where it is here, else a new one. */
    static LaneTask lease(TaskSpec spec, long[] positions, Orders orders, long attempt) {
        // Not under the lock: a new one logs in at the hub, and no other thread must wait for that.
        LaneTask made = OPEN.containsKey(spec.name) ? null : begin(spec, positions);
        try {
            synchronized (OPEN) {
                LaneTask task = OPEN.get(spec.name);
                if (task != null) {
                    task.mustBeAt(positions);
                } else if (made != null) {
                    task = made;
                    OPEN.put(spec.name, task);
                    Reporter.nudge();
                    made = null;
                }
                if (task != null) {
                    task.leaseTo(attempt, orders);
                    return task;
                }
            }
        } finally {
            if (made != null) {
                made.kill();
            }
        }
        // It was closed just now, as one that is not needed.
        return lease(spec, positions, orders, attempt);
    }

    private static LaneTask begin(TaskSpec spec, long[] positions) {
        mustBegin(spec, positions);
        return new LaneTask(spec, positions);
    }

    private void leaseTo(long to, Orders orders) {
        if (attempt >= 0) {
            throw new IllegalStateException(
                "task " + spec.name + " is still at work for another attempt");
        }
        attempt = to;
        nextPoint = 0;
        obey(orders);
        LEASED.put(to, this);
    }

    /** What this attempt has leased; null when its reader was never asked for anything. */
    static LaneTask leasedBy(long attempt) {
        return LEASED.get(attempt);
    }

    /** Ends at once what an attempt has leased and not committed. */
    static void abandon(long attempt) {
        LaneTask task = LEASED.get(attempt);
        if (task != null) {
            task.kill();
        }
    }

    static Collection<LaneTask> open() {
        return OPEN.values();
    }

    /** Advances to the next record that is wanted; false when there is none until the deadline. */
    boolean next(long deadlineMs) {
        feed.passed();
        while (true) {
            hub.throwFailure();
            if (untilLook > 0 && feed.more()) {
                untilLook--;
                if (feed.next(0)) {
                    return true;
                }
                continue;
            }
            boolean waits = !feed.moreNow() && sender.flushReady(System.nanoTime());
            untilLook = sender.isPaced() ? 0 : RECORDS_PER_LOOK;
            long left = deadlineMs - now();
            if (left <= 0) {
                sender.flush();
                return false;
            }
            obey(Reporter.orders(spec, orders));
            hub.look(deadlineMs - left);
            long nanos = System.nanoTime();
            sender.resume(nanos);
            if (nanos >= nextPoint) {
                point(nanos);
            }
            if (ended) {
                sender.flush();
                sleep(Math.min(left, ENDED_SLICE_MS));
                nextPoint = 0;
                continue;
            }
            long slow = sender.waitNanos(nanos) / 1_000_000;
            if (slow > 0) {
                sender.flush();
                sleep(Math.min(Math.min(left, slow), SLOW_SLICE_MS));
                continue;
            }
            long pause = waits ? 0 : nextPoint - nanos;
            long wait = Math.min(left * 1_000_000, Math.max(pause, LEAST_WAIT_NANOS));
            if (feed.next(wait)) {
                came = true;
                if (idle) {
                    idle = false;
                    nextPoint = Math.min(nextPoint, nanos + POINT_NANOS);
                    Reporter.nudge();
                }
                return true;
            }
        }
    }

    ConsumerRecord<byte[], byte[]> record() {
        return feed.record();
    }

    /** The offset of the record that was read last; below 0 when it is dealt with. */
    long offset() {
        return feed.offset();
    }

    /** Whether the record that was read last is one before which its partition stops. */
    boolean isStopped() {
        return feed.part >= 0
            && (feed.states[feed.part] == Feed.State.POISONED
                || feed.states[feed.part] == Feed.State.AWAITING);
    }

    /** Sends the record that was read last as it is, and those behind it that are at hand. */
    void sendAtHand() {
        while (true) {
            hub.throwFailure();
            untilLook -= feed.whole() == null ? 0 : LOOKS_PER_BATCH;
            sender.send();
            lookAtStops();
            feed.passed();
            if (untilLook <= 0 || !feed.more()) {
                return;
            }
            untilLook--;
            if (!feed.next(0)) {
                return;
            }
        }
    }

    /** Sends the record that was read last, with this content, to where its route says. */
    void send(byte[] key, byte[] value, Headers headers) {
        sender.send(key, value, headers);
        lookAtStops();
    }

    /** That a partition has stopped is news at once. */
    private void lookAtStops() {
        if (sender.hasStopped()) {
            nextPoint = 0;
            untilLook = 0;
        }
    }

    /**
     * Ends the lease. In the driver's JVM the next batch has this task again, so nothing is waited
     * for: what is on its way to a hub partition that takes nothing must not hold up the others.
     */
    void commit() {
        feed.passed();
        point(System.nanoTime());
        Failpoint.pass("task-flush");
        while (!isHere() && !points.settled()) {
            hub.throwFailure();
            sleep(FLUSH_SLICE_MS);
            hub.look(now());
            if (System.nanoTime() - nextPoint >= 0) {
                point(System.nanoTime());
            }
        }
        Failpoint.pass("task-commit");
        hub.throwFailure();
        release();
    }

    /** The positions up to which records were handed out and dealt with. */
    long[] positions() {
        feed.passed();
        return feed.positions.clone();
    }

    /**
     * Ends it at once: what is not sent yet never is. By the task's thread, or when it has none.
     */
    void kill() {
        // Kafka's clients set the interrupt again, and would then refuse to close.
        boolean interrupted = Thread.interrupted();
        closed = true;
        Failpoint.pass("task-abort");
        try {
            hub.close();
            // Only now: no thread of a producer is left.
            sender.gate.gone();
        } finally {
            try {
                feed.close();
                sender.close();
            } finally {
                OPEN.remove(spec.name, this);
                Reporter.nudge();
                release();
                if (interrupted) {
                    Thread.currentThread().interrupt();
                }
            }
        }
    }

    /** Closes what no attempt works with any more: its lane is over. */
    void closeIfIdle() {
        synchronized (OPEN) {
            if (attempt < 0 && !closed) {
                kill();
            }
        }
    }

    /** Closes what no attempt has worked with for long: its next batch runs in another JVM. */
    void closeIfForgotten() {
        if (!isHere() && System.nanoTime() - releasedAt > FORGOTTEN_NANOS) {
            closeIfIdle();
        }
    }

    /** Makes the task look at its orders now. By any thread. */
    void wake() {
        feed.wake();
    }

    /** See {@link FetchAnswers#silentNanos}. By any thread. */
    long silentNanos() {
        return feed.source.answers.silentNanos();
    }

    /** Whether nothing has come for long, and nothing waits. By any thread. */
    boolean isIdle() {
        return idle;
    }

    /** See {@link LogEnds#take}. By any thread. */
    Map<String, long[]> takeEnds(long now) {
        return feed.source.ends.take(now);
    }

    /** What was taken has not arrived. By any thread. */
    void endsAgain() {
        feed.source.ends.again();
    }

    /** What is news at once when it changes. */
    record Stand(long point, boolean ended, String error, long stuck) {}

    /** Whether it sends to a hub topic and does not go by these claims. By any thread. */
    boolean sendsWithout(Claims claims, String hubTopic) {
        for (int i = 0; i < spec.parts.size(); i++) {
            boolean sends = spec.parts.get(i).route.hubTopic.equals(hubTopic);
            if (sends && !sender.gate.goesBy(claims, i)) {
                return true;
            }
        }
        return false;
    }

    /** Its state; cheap. By any thread. */
    Stand stand() {
        boolean over = ended;
        return new Stand(points.settle().number(), over, feed.error(), feed.stuck());
    }

    /** What the driver learns of this task. By any thread. */
    TaskReport report() {
        // First: what is reported as ended has to come with the last point.
        boolean over = ended;
        TaskReport report =
            TaskReport.of(spec, topics, feed, points.settle(), sender.counts, sender.gate);
        ObjectNode json = report.plain();
        json.put("objects", objects).put("ended", over).put("retried", hub.retried());
        ArrayNode unknown = json.putArray("unknown");
        for (SchemaIds.Question each : sender.asked.open()) {
            unknown.addArray().add(each.topic()).add(each.side().text).add(each.named());
        }
        return report;
    }

    private void obey(Orders newest) {
        if (newest == orders) {
            return;
        }
        orders = newest;
        sender.obey(newest, System.nanoTime());
        feed.resume();
        Set<String> held = newest.held(spec);
        if (newest.end) {
            held = new HashSet<>();
            for (TaskSpec.Part part : spec.parts) {
                held.add(part.name());
            }
        }
        feed.hold(held);
        untilLook = 0;
        nextPoint = 0;
    }

    private void point(long nanos) {
        // A batch is of one epoch.
        sender.flush();
        feed.followPositions();
        long known = Math.max(spec.snapshot, Reporter.snapshot());
        if (points.stale(feed.positions, feed.states, known)) {
            points.close(feed.positions, feed.states, known, now());
            Failpoint.pass("task-point");
        }
        HubWriter.Stuck stuck = hub.tick();
        if (stuck != null) {
            leave(stuck);
        }
        BitSet silent = hub.silent();
        if (!silent.isEmpty()) {
            points.pass(silent, hub.partsOf(silent));
        }
        if (came) {
            came = false;
            cameAt = nanos;
        }
        boolean waits = sender.areWaiting() || orders.end;
        idle = !waits && nanos - cameAt > IDLE_AFTER_NANOS && points.settled();
        feed.look(!sender.isPaced(), idle, nanos);
        nextPoint = nanos + (idle ? IDLE_POINT_NANOS : POINT_NANOS);
        if (orders.end && !ended) {
            ended = points.settled();
            nextPoint = nanos + FLUSH_SLICE_MS * 1_000_000;
        }
    }

    /**
     * Continues without the partitions whose records a hub partition does not take. Not where what
     * they claimed is in doubt, nor where another task would read on from where they were: there
     * the lane ends, and says which they are.
     */
    private void leave(HubWriter.Stuck stuck) {
        BitSet parts = hub.drain();
        boolean mayLeave = isHere() && parts.stream().noneMatch(sender.gate::guards);
        if (!mayLeave && !parts.isEmpty()) {
            hub.fail(stuck, parts);
        }
        if (hub.failure() != null) {
            return;
        }
        List<HubWriter.Sent> lost = hub.leave(parts);
        feed.giveUp(parts, stuck.getMessage());
        points.giveUp(parts, Feed.State.STUCK);
        lost.forEach(HubWriter.Sent::lost);
    }

    /** It continues where a batch begins; it may have passed markers since its last report. */
    private void mustBeAt(long[] positions) {
        boolean behind = false;
        for (int i = 0; i < positions.length; i++) {
            behind |= feed.positions[i] < positions[i];
        }
        if (hub.failure() != null || behind) {
            kill();
            hub.throwFailure();
        }
    }

    /** What was on its way at the end of the batch before may be lost with the task of that one. */
    private static void mustBegin(TaskSpec spec, long[] positions) {
        for (int i = 0; isHere() && i < positions.length; i++) {
            if (positions[i] != spec.parts.get(i).position) {
                throw new IllegalStateException(
                    "task " + spec.name + " has ended between two batches");
            }
        }
    }

    private static boolean isHere() {
        return "driver".equals(SparkEnv.get().executorId());
    }

    private void release() {
        releasedAt = System.nanoTime();
        LEASED.remove(attempt, this);
        attempt = -1;
    }

    private static long now() {
        return DriverClock.now();
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException interrupted) {
            throw new InterruptException(interrupted);
        }
    }
}
