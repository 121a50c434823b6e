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
import org.apache.kafka.clients.producer.ProducerRecord;
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
    /** The same while nothing comes: there is little to report. */
    private static final long IDLE_POINT_NANOS = 1_000_000_000L;
    /** After this time without a record it is idle. */
    private static final long IDLE_AFTER_NANOS = 5_000_000_000L;
    /** Records between two looks at the clocks while more are at hand. */
    private static final int RECORDS_PER_LOOK = 128;
    private static final long ENDED_SLICE_MS = 20;
    /** Much longer than from one batch to the next. */
    private static final long FORGOTTEN_NANOS = 10_000_000_000L;
    private static final long SLOW_SLICE_MS = 50;
    private static final long FLUSH_SLICE_MS = 2;
    /** Until a partition that waits for another record is looked at again. */
    private static final long RESUME_NANOS = 500_000_000L;
    /** About what a record's headers and the rest of it take. */
    private static final int RECORD_OVERHEAD_BYTES = 150;

    private static final Map<String, LaneTask> OPEN = new ConcurrentHashMap<>();
    private static final Map<Long, LaneTask> LEASED = new ConcurrentHashMap<>();

    final TaskSpec spec;
    private final Feed feed;
    private final HubWriter hub;
    private final Points points;
    /** Why records are copied as objects; empty where they are copied as bytes. */
    private final String objects;
    /** The way of bytes; null where records are objects. */
    private final HubBatches batches;
    private final OriginBytes[] origins;
    private final byte[][] marks;
    private final Delivery.Counters counters;
    private final Gate gate;
    private final Bucket records = new Bucket(System.nanoTime());
    private final Bucket bytes = new Bucket(System.nanoTime());
    private final TaskCounts counts;
    private final SchemaIds.Asked asked = new SchemaIds.Asked();
    private final SchemaPatch schemas;
    private int untilLook;
    private long nextPoint;
    /** When partitions that wait for another record go on; 0 when there are none. */
    private long resumeAt;
    /** Places for which partitions wait because they are full. */
    private final BitSet full = new BitSet();
    private Orders orders = Orders.NONE;
    private long attempt = -1;
    private volatile long releasedAt = System.nanoTime();
    private volatile boolean closed;
    private volatile boolean ended;
    private volatile boolean idle;
    /** Whether records have come since the last point. */
    private boolean came;
    private long cameAt = System.nanoTime();

    private LaneTask(TaskSpec spec, long[] positions) {
        this.spec = spec;
        objects = spec.objects.isEmpty() ? KafkaShape.misfit() : spec.objects;
        TaskClients clients = new TaskClients(spec, objects.isEmpty());
        feed = new Feed(spec, positions, clients);
        points = new Points(positions, feed.states, spec.placeTopics.size(), spec.snapshot, now());
        hub = new HubWriter(spec, clients::producer, feed::wake, now());
        batches = objects.isEmpty() ? new HubBatches(spec, hub::send) : null;
        hub.beforeWaiting(this::flush);
        gate = new Gate(spec, this::flush);
        marks = spec.origin.marks();
        counts = new TaskCounts(spec.parts.size());
        counters = new Delivery.Counters(counts.flight, counts.age, gate::arrived);
        origins = new OriginBytes[spec.parts.size()];
        for (int i = 0; i < origins.length; i++) {
            TaskSpec.Part part = spec.parts.get(i);
            origins[i] = spec.origin.bytes(part.topic, part.partition, part.route.compact);
        }
        schemas = new SchemaPatch(origins.length, asked);
    }

    /** The task for an attempt: the one of the batch before where it is here, else a new one. */
    static LaneTask lease(TaskSpec spec, long[] positions, Orders orders, long attempt) {
        // Not under the lock: a new one logs in at the hub, and nobody else is to wait for that.
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
        // It was closed just now, as one that nobody needs.
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

    /** Goes on to the next record that is wanted; false when there is none until the deadline. */
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
            if (!feed.more()) {
                flush();
            }
            untilLook = records.limited() || bytes.limited() ? 0 : RECORDS_PER_LOOK;
            long left = deadlineMs - now();
            if (left <= 0) {
                return false;
            }
            obey(Reporter.orders(spec, orders));
            hub.look(deadlineMs - left);
            long nanos = System.nanoTime();
            if (resumeAt != 0 && nanos - resumeAt >= 0) {
                resumeAt = 0;
                feed.resume();
            }
            if (!full.isEmpty() && full.stream().anyMatch(hub::hasRoom)) {
                full.clear();
                feed.resume();
            }
            if (nanos >= nextPoint) {
                point(nanos);
            }
            if (ended) {
                sleep(Math.min(left, ENDED_SLICE_MS));
                nextPoint = 0;
                continue;
            }
            long slow = Math.max(records.waitNanos(nanos), bytes.waitNanos(nanos)) / 1_000_000;
            if (slow > 0) {
                flush();
                sleep(Math.min(Math.min(left, slow), SLOW_SLICE_MS));
                continue;
            }
            long wait = Math.min(left * 1_000_000, Math.max(nextPoint - nanos, 1_000_000));
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
            // What goes as bytes asks for the lease when its batch is handed over.
            if (!isRaw() || !sendRaw()) {
                ConsumerRecord<byte[], byte[]> whole = feed.record();
                send(whole.key(), whole.value(), whole.headers());
            }
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

    /** Whether nothing of the record that was read last is needed as an object. */
    private boolean isRaw() {
        TaskSpec.Part part = spec.parts.get(feed.part);
        return batches != null && !part.route.checkSchemas && part.later.isEmpty()
            && !gate.guards(feed.part);
    }

    /**
     * Sends the record that was read last from batch to batch as bytes. False when that was not
     * done, as it may be one that comes from the hub, or that the hub refuses.
     */
    private boolean sendRaw() {
        BatchCursor cursor = feed.cursor();
        int at = feed.part;
        TaskSpec.Part part = spec.parts.get(at);
        if (cursor.headers > 0 && cursor.hasHeader(marks)) {
            return false;
        }
        OriginBytes origin = origins[at];
        origin.encode(cursor.offset, cursor.timestamp);
        if (part.route.limits.refusal(cursor, origin) != null) {
            return false;
        }
        int size = Math.max(0, cursor.keyLength) + Math.max(0, cursor.valueLength);
        records.take(1);
        bytes.take(size);
        int place = part.route.firstPlace
            + part.route.placement.of(
                cursor.bytes, cursor.keyAt, cursor.keyLength, part.partition, cursor.offset);
        if (!hub.takes(place, size)) {
            waitForRoom(place);
            return true;
        }
        long timestamp = cursor.timestamp < 0 ? now() : cursor.timestamp;
        batches.append(place, cursor, timestamp, origin, this::begin)
            .add(at, cursor.timestamp, null);
        points.sending(place);
        sent(part, size);
        return true;
    }

    private Delivery begin(int place) {
        return new Delivery(place, points.open(), feed.polledAtMs, counters);
    }

    /** Hands over the batches that were begun. */
    private void flush() {
        if (batches != null) {
            batches.flush();
        }
    }

    /** Sends the record that was read last, with this content, to where its route says. */
    void send(byte[] key, byte[] value, Headers headers) {
        WriteGuard.await();
        hub.throwFailure();
        if (spec.origin.fromHub(headers)) {
            counts.looped++;
            return;
        }
        TaskSpec.Route route = spec.parts.get(feed.part).route;
        String refusal = null;
        if (route.checkSchemas) {
            String waits =
                schemas.look(feed.part, spec.parts.get(feed.part).topic, key, value, headers);
            if (waits != null) {
                stop(Feed.State.AWAITING, waits);
                return;
            }
            refusal = schemas.refusal();
            if (refusal == null && route.translateSchemas) {
                // What was read into arrays of its own, and not by a transform, is patched there:
                // a record that is read again is fetched again.
                key = schemas.patched(SchemaIds.Side.KEY, key, spec.plain);
                value = schemas.patched(SchemaIds.Side.VALUE, value, spec.plain);
                headers = schemas.patched(headers);
            }
        }
        send(key, value, headers, refusal);
    }

    /** Sends it with its origin: where its route says, or aside when something is refused. */
    private void send(byte[] key, byte[] value, Headers headers, String refusal) {
        ConsumerRecord<byte[], byte[]> from = feed.record();
        int at = feed.part;
        TaskSpec.Part part = spec.parts.get(at);
        AsideRecord.Content whole =
            new AsideRecord.Content(key, value, headers, headers.toArray().length);
        origins[at].tag.append(headers, from.offset(), from.timestamp());
        int size = size(key) + size(value);
        records.take(1);
        bytes.take(size);
        String why = refusal != null
            ? refusal
            : part.route.limits.refusal(key, value, headers, from.timestamp(), now());
        int goesTo = part.route.placement.of(key, from.partition(), from.offset());
        if (why == null && part.isReplaced(key, goesTo, from.offset())) {
            feed.skipped++;
            return;
        }
        int place = why == null ? part.route.firstPlace + goesTo : spec.quarantinePlace;
        // Before it is claimed: what has a claim is sent.
        if (!hub.takes(place, size)) {
            waitForRoom(place);
            return;
        }
        Gate.Verdict verdict = why == null && gate.guards(at)
            ? gate.judge(at, key, value, headers, from.offset())
            : Gate.Verdict.SEND;
        if (verdict == Gate.Verdict.WAIT) {
            stop(Feed.State.AWAITING, gate.reason);
            resumeAt = System.nanoTime() + RESUME_NANOS;
            return;
        }
        if (verdict == Gate.Verdict.DROP) {
            setAside(spec.duplicatesPlace, part.route.duplicateBytes, gate.reason, whole);
        } else if (why == null) {
            Claims.Claim claim = gate.guards(at) ? gate.claim : null;
            hand(place, key, value, headers, claim);
        } else if (!quarantined(why, whole)) {
            return;
        }
        sent(part, size);
    }

    private void sent(TaskSpec.Part part, int size) {
        counts.sent(feed.part, size, feed.offset() < part.skip.top());
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
            gate.gone();
        } finally {
            try {
                feed.close();
                if (batches != null) {
                    batches.close();
                }
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
        return feed.answers.silentNanos();
    }

    /** Whether nothing has come for long, and nothing waits. By any thread. */
    boolean isIdle() {
        return idle;
    }

    /** See {@link LogEnds#take}. By any thread. */
    Map<String, long[]> takeEnds(long now) {
        return feed.ends.take(now);
    }

    /** What was taken has not arrived. By any thread. */
    void endsAgain() {
        feed.ends.again();
    }

    /** What is news at once when it changes. */
    record Stand(long point, boolean ended, String error, long stuck) {}

    /** Whether it sends to a hub topic and does not go by these claims. By any thread. */
    boolean sendsWithout(Claims claims, String hubTopic) {
        for (int i = 0; i < spec.parts.size(); i++) {
            boolean sends = spec.parts.get(i).route.hubTopic.equals(hubTopic);
            if (sends && !gate.goesBy(claims, i)) {
                return true;
            }
        }
        return false;
    }

    /** How it stands; cheap. By any thread. */
    Stand stand() {
        boolean over = ended;
        return new Stand(points.settle().number(), over, feed.error(), feed.stuck());
    }

    /** What the driver learns of this task, as JSON. By any thread. */
    ObjectNode report() {
        // First: what is reported as ended has to come with the last point.
        boolean over = ended;
        ObjectNode json = new TaskReport(spec, feed, points.settle(), counts, gate).json();
        json.put("objects", objects).put("ended", over).put("retried", hub.retried());
        ArrayNode unknown = json.putArray("unknown");
        for (SchemaIds.Question each : asked.open()) {
            unknown.addArray().add(each.topic()).add(each.side().text).add(each.named());
        }
        return json;
    }

    private void obey(Orders newest) {
        if (newest == orders) {
            return;
        }
        orders = newest;
        long now = System.nanoTime();
        records.limit(newest.records(spec), now);
        bytes.limit(newest.bytes(spec), now);
        schemas.know(newest.schemas(spec));
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
        flush();
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
        boolean waits = resumeAt != 0 || !full.isEmpty() || orders.end;
        idle = !waits && nanos - cameAt > IDLE_AFTER_NANOS && points.settled();
        feed.look(!records.limited() && !bytes.limited(), idle, nanos);
        nextPoint = nanos + (idle ? IDLE_POINT_NANOS : POINT_NANOS);
        if (orders.end && !ended) {
            ended = points.settled();
            nextPoint = nanos + FLUSH_SLICE_MS * 1_000_000;
        }
    }

    /**
     * Continues without the partitions whose records a hub partition does not take. Not where what
     * they claimed is in doubt, nor where another task would read on from where they were.
     */
    private void leave(HubWriter.Stuck stuck) {
        BitSet parts = isHere() ? hub.drain() : null;
        if (parts == null || hub.failure() != null || parts.stream().anyMatch(gate::guards)) {
            hub.fail(stuck);
            return;
        }
        List<HubWriter.Sent> lost = hub.leave(parts);
        feed.giveUp(parts, stuck.getMessage());
        points.giveUp(parts, Feed.State.STUCK);
        lost.forEach(HubWriter.Sent::lost);
    }

    /** Sends it to the quarantine topic; false where there is none, and its partition stops. */
    private boolean quarantined(String reason, AsideRecord.Content whole) {
        ConsumerRecord<byte[], byte[]> from = feed.record();
        TaskSpec.Route route = spec.parts.get(feed.part).route;
        if (route.quarantine.isEmpty()) {
            stop(
                Feed.State.POISONED,
                "hub topic " + route.hubTopic + " would refuse " + spec.cluster + "/" + from.topic()
                    + "-" + from.partition() + "@" + from.offset() + " (" + reason
                    + "), and topics.on_poison is stop: raise the limits of " + route.hubTopic
                    + ", or set topics.on_poison: quarantine");
            return false;
        }
        setAside(spec.quarantinePlace, route.quarantineBytes, reason, whole);
        return true;
    }

    /** Sends it to another topic than its own, where a batch of one may have so many bytes. */
    private void setAside(int place, int bytes, String reason, AsideRecord.Content whole) {
        TaskSpec.Route route = spec.parts.get(feed.part).route;
        AsideRecord.Content part =
            AsideRecord.of(whole, spec, route, bytes, reason, feed.timestamp());
        hand(place, part.key(), part.value(), part.headers(), null);
    }

    /** Stops the partition of the record that was read last before that one. */
    private void stop(Feed.State state, String why) {
        feed.stop(state, why);
        nextPoint = 0;
        untilLook = 0;
    }

    private void hand(int place, byte[] key, byte[] value, Headers headers, Claims.Claim claim) {
        long timestamp = feed.timestamp();
        if (batches != null) {
            long sentAs = timestamp < 0 ? now() : timestamp;
            batches.append(place, sentAs, key, value, headers, this::begin)
                .add(feed.part, timestamp, claim);
            points.sending(place);
            return;
        }
        // A record without a timestamp (-1) cannot be sent so: it gets the time of arrival.
        ProducerRecord<byte[], byte[]> to = new ProducerRecord<>(
            spec.placeTopics.get(place),
            spec.placePartitions.get(place),
            timestamp < 0 ? null : timestamp,
            key,
            value,
            headers);
        Delivery delivery = begin(place);
        delivery.add(feed.part, timestamp, claim);
        points.sending(place);
        int bytes = RECORD_OVERHEAD_BYTES + size(key) + size(value);
        hub.send(place, new HubWriter.RecordLoad(to, bytes), timestamp, delivery);
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

    private void waitForRoom(int place) {
        full.set(place);
        String why = hub.refusal(place);
        stop(
            Feed.State.AWAITING,
            "hub partition " + spec.placeTopics.get(place) + "-" + spec.placePartitions.get(place)
                + " takes nothing at present" + (why == null ? "" : ": " + why));
    }

    private void release() {
        releasedAt = System.nanoTime();
        LEASED.remove(attempt, this);
        attempt = -1;
    }

    private static int size(byte[] bytes) {
        return bytes == null ? 0 : bytes.length;
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
