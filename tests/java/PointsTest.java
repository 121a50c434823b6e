package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

class PointsTest {
    private static final Feed.State READING = Feed.State.READING;
    private static final Feed.State HELD = Feed.State.HELD;

    @Test
    void atFirstItsPositionsAreThoseThatItBeganWith() {
        Points points = new Points(longs(5, 7), states(READING, HELD), 3, 4, 1000);
        Points.Point point = points.settle();
        assertPoint(point, 0, longs(5, 7), longs(0, 0, 0), 4);
        assertArrayEquals(states(READING, HELD), point.states());
        assertEquals(1000, point.atMs());
    }

    @Test
    void whileOneRecordIsNotAcknowledgedNothingGrowsByTime() {
        Points points = points(0);
        Points.Epoch stuck = points.sending(0);
        points.close(longs(1), states(READING), 0, 1);
        for (int turn = 2; turn < 20_000; turn++) {
            // What others report moves the snapshot, and markers the position.
            assertTrue(points.stale(longs(turn), states(READING), turn));
            points.close(longs(turn), states(READING), turn, turn);
        }
        assertEquals(1, points.waiting());
        assertPoint(points.settle(), 0, longs(0), longs(0, 0), 0);
        stuck.acknowledge(0, 11);
        assertPoint(points.settle(), 1, longs(19_999), longs(11, 0), 19_999);
        assertTrue(points.settled());
    }

    @Test
    void whatIsGivenUpStaysWhereTheLastPointHadItWithTheBoundOfThen() {
        Points points = new Points(longs(0, 0), states(READING, READING), 2, 4, 0);
        points.sending(0).acknowledge(0, 11);
        points.close(longs(5, 7), states(READING, READING), 4, 1);
        Points.Epoch stuck = points.sending(0);
        points.sending(1).acknowledge(1, 21);
        points.close(longs(6, 8), states(READING, READING), 5, 2);
        points.sending(1).acknowledge(1, 22);
        assertPoint(points.settle(), 1, longs(5, 7), longs(11, 0), 4);
        points.giveUp(BitSet.valueOf(new long[] {1}), Feed.State.STUCK);
        assertPoint(points.settle(), 1, longs(5, 7), longs(11, 0), 4);
        assertArrayEquals(states(READING, READING), points.settle().states());
        stuck.lose(0, 1);
        // Never with a later bound than its own, but that it says so.
        assertPoint(points.settle(), 2, longs(5, 8), longs(11, 21), 5);
        assertArrayEquals(states(Feed.State.STUCK, READING), points.settle().states());
        points.close(longs(9, 9), states(Feed.State.STUCK, READING), 5, 3);
        assertPoint(points.settle(), 3, longs(5, 9), longs(11, 22), 5);
        assertFalse(points.stale(longs(9, 9), states(Feed.State.STUCK, READING), 5));
    }

    @Test
    void whatGoesToOtherPlacesNeedNotWaitForOneThatGivesNoAnswer() {
        Feed.State[] reading = states(READING, READING);
        Points points = new Points(longs(0, 0), reading, 2, 4, 0);
        Points.Epoch silent = points.sending(0);
        points.close(longs(1, 0), reading, 5, 1);
        points.sending(1).acknowledge(1, 21);
        points.close(longs(1, 5), reading, 6, 2);
        Points.Epoch late = points.sending(1);
        points.close(longs(2, 7), states(READING, HELD), 6, 3);
        BitSet first = BitSet.valueOf(new long[] {1});
        points.pass(first, first);
        // The bound stays where nothing of the first one is beyond it.
        assertPoint(points.settle(), 1, longs(0, 5), longs(0, 0), 4);
        points.pass(first, first);
        assertEquals(1, points.settle().number(), "nothing is new");
        late.acknowledge(1, 22);
        points.pass(first, first);
        assertPoint(points.settle(), 2, longs(0, 7), longs(0, 0), 4);
        assertArrayEquals(states(READING, HELD), points.settle().states());
        points.close(longs(2, 9), reading, 7, 4);
        points.pass(first, first);
        assertPoint(points.settle(), 3, longs(0, 9), longs(0, 0), 4);
        assertFalse(points.settled());
        silent.acknowledge(0, 11);
        // What had gone on does not go back.
        assertPoint(points.settle(), 6, longs(2, 9), longs(11, 22), 7);
        assertTrue(points.settled());
    }

    @Test
    void whatIsGivenUpBesideOthersThatWentOnStaysWhereItWas() {
        Feed.State[] reading = states(READING, READING);
        Points points = new Points(longs(0, 0), reading, 2, 4, 0);
        Points.Epoch silent = points.sending(0);
        points.sending(1).acknowledge(1, 21);
        points.close(longs(3, 5), reading, 5, 1);
        BitSet first = BitSet.valueOf(new long[] {1});
        points.pass(first, first);
        assertPoint(points.settle(), 1, longs(0, 5), longs(0, 0), 4);
        points.giveUp(first, Feed.State.STUCK);
        silent.lose(0, 1);
        assertPoint(points.settle(), 2, longs(0, 5), longs(0, 21), 5);
        assertArrayEquals(states(Feed.State.STUCK, READING), points.settle().states());
    }

    @Test
    void whileOneRecordIsNotAcknowledgedThoseOfOtherPlacesAreNotKeptByTheThousand() {
        Points points = points(0);
        Points.Epoch stuck = points.sending(0);
        points.close(longs(1), states(READING), 0, 1);
        for (int turn = 2; turn < 20_000; turn++) {
            Points.Epoch epoch = points.sending(1);
            points.close(longs(turn), states(READING), turn, turn);
            epoch.acknowledge(1, 7 * turn);
            assertTrue(points.waiting() <= Points.MANY + 1);
        }
        assertPoint(points.settle(), 0, longs(0), longs(0, 0), 0);
        stuck.acknowledge(0, 11);
        Points.Point last = points.settle();
        assertArrayEquals(longs(19_999), last.positions());
        assertArrayEquals(longs(11, 7 * 19_999), last.ends());
        assertEquals(19_999, last.snapshot());
    }

    @Test
    void aPointHoldsOnlyWhenAllRecordsBeforeItAreAcknowledged() {
        Points points = points(0);
        Points.Epoch first = points.sending(0);
        Points.Epoch second = points.sending(0);
        assertSame(first, second);
        points.close(longs(2), states(READING), 0, 1);
        assertPoint(points.settle(), 0, longs(0), longs(0, 0), 0);
        first.acknowledge(0, 11);
        assertPoint(points.settle(), 0, longs(0), longs(0, 0), 0);
        second.acknowledge(1, 21);
        assertPoint(points.settle(), 1, longs(2), longs(11, 21), 0);
    }

    @Test
    void aPointWaitsForThoseBeforeItWhenItsOwnRecordsAreAcknowledged() {
        Points points = points(0);
        Points.Epoch first = points.sending(0);
        points.close(longs(1), states(READING), 5, 1);
        Points.Epoch second = points.sending(0);
        points.close(longs(2), states(HELD), 6, 2);
        second.acknowledge(1, 31);
        assertPoint(points.settle(), 0, longs(0), longs(0, 0), 0);
        first.acknowledge(0, 30);
        Points.Point both = points.settle();
        assertPoint(both, 2, longs(2), longs(30, 31), 6);
        assertArrayEquals(states(HELD), both.states());
        assertEquals(2, both.atMs());
    }

    @Test
    void whatIsSentAfterAPointWasClosedDoesNotHinderIt() {
        Points points = points(0);
        Points.Epoch first = points.sending(0);
        points.close(longs(1), states(READING), 0, 1);
        points.sending(0);
        first.acknowledge(0, 1);
        assertPoint(points.settle(), 1, longs(1), longs(1, 0), 0);
    }

    @Test
    void aPointWithoutRecordsHoldsAtOnce() {
        Points points = points(0);
        points.close(longs(9), states(READING), 0, 1);
        assertPoint(points.settle(), 1, longs(9), longs(0, 0), 0);
    }

    @Test
    void endsAreTheHighestOfAllPointsSoFar() {
        Points points = points(0);
        Points.Epoch first = points.sending(0);
        points.sending(0);
        first.acknowledge(0, 7);
        first.acknowledge(0, 8);
        points.close(longs(2), states(READING), 0, 1);
        Points.Epoch second = points.sending(0);
        second.acknowledge(1, 3);
        points.close(longs(3), states(READING), 0, 2);
        assertPoint(points.settle(), 2, longs(3), longs(8, 3), 0);
    }

    @Test
    void acknowledgementsOfTwoProducersAreAllCounted() throws Exception {
        int each = 5_000_000;
        CyclicBarrier both = new CyclicBarrier(2);
        Points points = points(0);
        Points.Epoch epoch = points.sending(0);
        for (int i = 1; i < 2 * each; i++) {
            points.sending(0);
        }
        points.close(longs(2 * each), states(READING), 0, 1);
        ExecutorService producers = Executors.newFixedThreadPool(2);
        try {
            List<Future<?>> all = new ArrayList<>();
            for (int place = 0; place < 2; place++) {
                int own = place;
                all.add(producers.submit(() -> {
                    both.await();
                    for (int i = 1; i <= each; i++) {
                        epoch.acknowledge(own, i);
                    }
                    return null;
                }));
            }
            for (Future<?> done : all) {
                done.get();
            }
        } finally {
            producers.shutdownNow();
        }
        assertPoint(points.settle(), 1, longs(2 * each), longs(each, each), 0);
    }

    @Test
    void aPointThatWasAskedForStaysAsItIs() {
        Points points = points(0);
        Points.Epoch first = points.sending(0);
        points.close(longs(1), states(READING), 0, 1);
        first.acknowledge(0, 7);
        Points.Point before = points.settle();
        points.sending(0).acknowledge(0, 8);
        points.close(longs(2), states(READING), 0, 2);
        assertPoint(points.settle(), 2, longs(2), longs(8, 0), 0);
        assertPoint(before, 1, longs(1), longs(7, 0), 0);
    }

    @Test
    void anAcknowledgementWithoutAnOffsetCountsAndSaysNothingOfTheEnd() {
        Points points = points(0);
        Points.Epoch first = points.sending(0);
        points.sending(0);
        first.acknowledge(0, 7);
        first.acknowledge(0, 0);
        points.close(longs(2), states(READING), 0, 1);
        assertPoint(points.settle(), 1, longs(2), longs(7, 0), 0);
    }

    @Test
    void whatItWasGivenMayChangeAfterwards() {
        long[] positions = longs(1);
        Feed.State[] states = states(READING);
        Points points = new Points(positions, states, 2, 0, 0);
        positions[0] = 2;
        states[0] = HELD;
        assertPoint(points.settle(), 0, longs(1), longs(0, 0), 0);
        assertArrayEquals(states(READING), points.settle().states());
        points.close(positions, states, 0, 1);
        positions[0] = 3;
        states[0] = READING;
        assertPoint(points.settle(), 1, longs(2), longs(0, 0), 0);
        assertArrayEquals(states(HELD), points.settle().states());
    }

    @Test
    void itIsNotStaleWhenNothingIsNew() {
        Points points = points(4);
        assertFalse(points.stale(longs(0), states(READING), 4));
        // The same for a point that was closed, and for one that holds.
        points.sending(0);
        points.close(longs(3), states(HELD), 5, 1);
        assertFalse(points.stale(longs(3), states(HELD), 5));
        points.close(longs(4), states(READING), 6, 2);
        assertFalse(points.stale(longs(4), states(READING), 6));
        Points settled = points(0);
        settled.close(longs(8), states(HELD), 9, 3);
        settled.settle();
        assertFalse(settled.stale(longs(8), states(HELD), 9));
    }

    @Test
    void itIsStaleWhenTheSnapshotThePositionsOrTheStatesDiffer() {
        Points fresh = points(4);
        assertStaleForAnyOther(fresh, 0, READING, 4);
        Points closed = points(4);
        closed.sending(0);
        closed.close(longs(3), states(HELD), 5, 1);
        assertStaleForAnyOther(closed, 3, HELD, 5);
        Points settled = points(4);
        settled.close(longs(3), states(HELD), 5, 1);
        settled.settle();
        assertStaleForAnyOther(settled, 3, HELD, 5);
    }

    @Test
    void itIsStaleWhenSomethingWasSent() {
        Points points = points(4);
        points.sending(0).acknowledge(0, 1);
        assertTrue(points.stale(longs(0), states(READING), 4));
        points.close(longs(0), states(READING), 4, 1);
        assertFalse(points.stale(longs(0), states(READING), 4));
    }

    @Test
    void itIsSettledWhenAllIsAcknowledgedAndCovered() {
        Points points = points(0);
        assertTrue(points.settled());
        Points.Epoch epoch = points.sending(0);
        assertFalse(points.settled());
        epoch.acknowledge(0, 1);
        assertFalse(points.settled(), "acknowledged, but no point covers it");
        points.close(longs(1), states(READING), 0, 1);
        assertTrue(points.settled());
        points.sending(0);
        points.close(longs(2), states(READING), 0, 2);
        assertFalse(points.settled());
    }

    @Test
    void positionsNeverCoverWhatIsNotInTheHubAndEndsNeverPassWhatTheyDoNotCover() {
        for (int seed = 0; seed < 600; seed++) {
            Model model = new Model(seed, seed % 2 == 0);
            for (int step = 0; step < 250; step++) {
                model.step();
                model.check();
            }
            model.end();
        }
    }

    @Test
    @Timeout(60)
    void aThreadThatAsksWhileOthersSendAndAcknowledgeSeesOnlyWholePoints() throws Exception {
        int records = 200_000;
        Points points = points(0);
        AtomicLong acknowledged = new AtomicLong();
        BlockingQueue<Points.Epoch> sent = new ArrayBlockingQueue<>(1000);
        ExecutorService threads = Executors.newFixedThreadPool(2);
        try {
            // Record n is the one at offset n of the source, and of its place in the hub.
            Future<?> producer = threads.submit(() -> {
                for (int i = 0; i < records; i++) {
                    Points.Epoch epoch = sent.take();
                    acknowledged.set(i + 1);
                    epoch.acknowledge(0, i + 1);
                }
                return null;
            });
            Future<?> asker = threads.submit(() -> {
                long reached = 0;
                while (reached < records && !Thread.currentThread().isInterrupted()) {
                    Points.Point point = points.settle();
                    assertTrue(point.positions()[0] <= acknowledged.get());
                    assertEquals(point.positions()[0], point.ends()[0]);
                    reached = point.positions()[0];
                }
            });
            for (int i = 1; i <= records; i++) {
                sent.put(points.sending(0));
                if (i % 2 == 0) {
                    points.close(longs(i), states(READING), 0, i);
                }
            }
            producer.get();
            asker.get();
        } finally {
            threads.shutdownNow();
        }
        assertTrue(points.settled());
        assertEquals(records, points.settle().positions()[0]);
    }

    /** A record that was sent: what it is of, and where it came to lie. */
    private static final class Sent {
        private final int part;
        private final long offset;
        private final int place;
        private final Points.Epoch epoch;
        private long hubOffset = -1;
        private boolean acknowledged;
        /** The end that its acknowledgement reported; 0 when it reported none. */
        private long reportedEnd;

        private Sent(int part, long offset, int place, Points.Epoch epoch) {
            this.part = part;
            this.offset = offset;
            this.place = place;
            this.epoch = epoch;
        }
    }

    /** What a task had when it closed an epoch, and how many records it had sent by then. */
    private record Closed(
        long[] positions, Feed.State[] states, long snapshot, long atMs, int records) {}

    /** Sources, a producer and a hub, which take random steps; and what `Points` should say. */
    private static final class Model {
        private static final int PARTS = 3;
        private static final int PLACES = 4;

        private final String seed;
        private final Random random;
        /** Whether places may be found to be silent. */
        private final boolean passes;
        private final Points points;
        private final long[] positions = new long[PARTS];
        private final Feed.State[] states = new Feed.State[PARTS];
        private final List<Sent> sent = new ArrayList<>();
        private final List<Closed> closed = new ArrayList<>();
        /**
         * Of each place: records on their way, in order, and such that lie in the hub unanswered.
         */
        private final List<Deque<Sent>> onTheWay = new ArrayList<>();
        private final List<Deque<Sent>> unanswered = new ArrayList<>();
        private final long[] hubEnds = new long[PLACES];
        private final List<long[]> snapshots = new ArrayList<>();
        private long now;
        private int reported;
        private long number;

        private Model(int seed, boolean passes) {
            this.seed = "seed " + seed;
            this.passes = passes;
            random = new Random(seed);
            for (int i = 0; i < PARTS; i++) {
                positions[i] = random.nextInt(100);
                states[i] = READING;
            }
            for (int i = 0; i < PLACES; i++) {
                onTheWay.add(new ArrayDeque<>());
                unanswered.add(new ArrayDeque<>());
                hubEnds[i] = random.nextInt(50);
            }
            snapshots.add(hubEnds.clone());
            closed.add(new Closed(positions.clone(), states.clone(), 0, 0, 0));
            points = new Points(positions, states, PLACES, 0, 0, 1 + seed % 5);
        }

        private void step() {
            now++;
            int place = random.nextInt(PLACES);
            switch (random.nextInt(12)) {
                case 0, 1, 2, 3:
                    send(place);
                    break;
                case 4, 5, 6:
                    arrive(place);
                    break;
                case 7, 8:
                    acknowledge(place);
                    break;
                case 9:
                    // Another lane writes there too, or a look at the hub's ends is taken.
                    if (random.nextBoolean()) {
                        hubEnds[place] += random.nextInt(3);
                    } else {
                        snapshots.add(hubEnds.clone());
                    }
                    break;
                case 10:
                    states[random.nextInt(PARTS)] = random.nextBoolean() ? READING : HELD;
                    break;
                default:
                    close();
            }
            if (passes && random.nextInt(4) == 0) {
                pass();
            }
        }

        /** Some places are silent; of other partitions than these nothing is on its way there. */
        private void pass() {
            BitSet silent = new BitSet();
            BitSet parts = new BitSet();
            for (int i = 0; i < PLACES; i++) {
                silent.set(i, random.nextBoolean());
            }
            for (Sent record : sent) {
                if (!record.acknowledged && silent.get(record.place)) {
                    parts.set(record.part);
                }
            }
            points.pass(silent, parts);
        }

        private void send(int place) {
            int part = random.nextInt(PARTS);
            // Some are left out: positions pass them.
            if (random.nextInt(5) > 0) {
                Sent record = new Sent(part, positions[part], place, points.sending(place));
                sent.add(record);
                onTheWay.get(place).add(record);
            }
            positions[part]++;
        }

        private void arrive(int place) {
            Sent record = onTheWay.get(place).poll();
            if (record != null) {
                record.hubOffset = hubEnds[place]++;
                unanswered.get(place).add(record);
            }
        }

        private void acknowledge(int place) {
            Sent record = unanswered.get(place).poll();
            if (record != null) {
                record.acknowledged = true;
                // A producer does not learn the offset of what it had to send twice.
                record.reportedEnd = random.nextInt(10) > 0 ? record.hubOffset + 1 : 0;
                record.epoch.acknowledge(place, record.reportedEnd);
            }
        }

        private void close() {
            long snapshot = snapshots.size() - 1;
            Closed last = closed.get(closed.size() - 1);
            boolean news = last.records != sent.size() || last.snapshot != snapshot
                || !Arrays.equals(last.positions, positions) || !Arrays.equals(last.states, states);
            assertEquals(news, points.stale(positions, states, snapshot), seed);
            if (news) {
                points.close(positions, states, snapshot, now);
                closed.add(
                    new Closed(positions.clone(), states.clone(), snapshot, now, sent.size()));
            }
        }

        /** What every point promises to the one who starts a lane from it. */
        private void check() {
            Points.Point point = points.settle();
            long[] known = snapshots.get((int) point.snapshot());
            for (Sent record : sent) {
                if (record.offset < point.positions()[record.part]) {
                    assertTrue(record.acknowledged, seed);
                } else {
                    long lies = record.hubOffset < 0 ? hubEnds[record.place] : record.hubOffset;
                    assertTrue(lies >= point.ends()[record.place], seed);
                    assertTrue(lies >= known[record.place], seed);
                }
            }
            checkNewest(point);
        }

        /** It is the newest that can be reported, not only one that is true. */
        private void checkNewest(Points.Point point) {
            int answered = 0;
            while (answered < sent.size() && sent.get(answered).acknowledged) {
                answered++;
            }
            int newest = closed.size() - 1;
            while (closed.get(newest).records > answered) {
                newest--;
            }
            Closed expected = closed.get(newest);
            if (passes) {
                for (int i = 0; i < PARTS; i++) {
                    assertTrue(point.positions()[i] >= expected.positions[i], seed);
                }
                return;
            }
            assertEquals(newest > reported, point.number() > number, seed);
            reported = newest;
            number = point.number();
            assertArrayEquals(expected.positions, point.positions(), seed);
            assertArrayEquals(expected.states, point.states(), seed);
            assertEquals(expected.snapshot, point.snapshot(), seed);
            assertEquals(expected.atMs, point.atMs(), seed);
            long[] ends = new long[PLACES];
            for (Sent record : sent.subList(0, expected.records)) {
                ends[record.place] = Math.max(ends[record.place], record.reportedEnd);
            }
            assertArrayEquals(ends, point.ends(), seed);
            boolean all = newest == closed.size() - 1 && expected.records == sent.size();
            assertEquals(all, points.settled(), seed);
        }

        /** Everything arrives and is acknowledged, in any order of the places. */
        private void end() {
            while (sent.stream().anyMatch(record -> !record.acknowledged)) {
                int place = random.nextInt(PLACES);
                arrive(place);
                acknowledge(place);
                check();
            }
            close();
            check();
            assertTrue(points.settled(), seed);
            assertArrayEquals(positions, points.settle().positions(), seed);
        }
    }

    private static void assertStaleForAnyOther(
        Points points, long position, Feed.State state, long snapshot) {
        assertFalse(points.stale(longs(position), states(state), snapshot));
        assertTrue(points.stale(longs(position), states(state), snapshot + 1));
        assertTrue(points.stale(longs(position + 1), states(state), snapshot));
        assertTrue(points.stale(longs(position), states(Feed.State.DONE), snapshot));
    }

    private static void assertPoint(
        Points.Point point, long number, long[] positions, long[] ends, long snapshot) {
        assertEquals(number, point.number());
        assertArrayEquals(positions, point.positions());
        assertArrayEquals(ends, point.ends());
        assertEquals(snapshot, point.snapshot());
    }

    /** Of one source partition at 0, and two places. */
    private static Points points(long snapshot) {
        return new Points(longs(0), states(READING), 2, snapshot, 0);
    }

    private static long[] longs(long... numbers) {
        return numbers;
    }

    private static Feed.State[] states(Feed.State... states) {
        return states;
    }
}
