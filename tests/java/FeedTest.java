package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.ClusterResource;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

class FeedTest {
    private static final long MILLISECOND = 1_000_000L;
    /** Of the wait after a failure, which is a second at first. */
    private static final long DEADLINE_NANOS = 10_000_000_000L;

    private final SourceLog source = new SourceLog();

    @Test
    void aRecordIsHandedOutWithItsPartitionAndThatInOrder() {
        source.with("orders", 0, 3, 4, 7).with("orders", 1, 8);
        Feed feed = feed(part("orders", 0, 3), part("orders", 1, 8));
        assertTrue(feed.next(0));
        assertNotNull(feed.record());
        assertTrue(feed.polledAtMs > 0);
        List<String> found = new ArrayList<>(List.of(feed.part + "@" + feed.record().offset()));
        found.addAll(drain(feed));
        assertEquals(
            List.of("0@3", "0@4", "0@7"), found.stream().filter(it -> it.startsWith("0")).toList());
        assertEquals(List.of("1@8"), found.stream().filter(it -> it.startsWith("1")).toList());
        assertEquals(List.of(Map.of("client.id", "a")), source.settings);
    }

    @Test
    void whereMuchWasReadWhatHasComeMeanwhileIsThereWithoutWaiting() {
        source.with("orders", 0, 3);
        source.add("orders", 0, 5, new byte[300_000]);
        source.atOnce = () -> 1;
        Feed feed = feed(part("orders", 0, 3));
        assertFalse(feed.moreNow());
        assertTrue(feed.next(0));
        assertFalse(feed.moreNow(), "a small record alone asks for no other");
        assertTrue(feed.next(0));
        assertEquals(5, feed.offset());
        feed.passed();
        assertFalse(feed.moreNow());
        source.with("orders", 0, 6);
        assertFalse(feed.moreNow(), "the last poll has given nothing");
        assertTrue(feed.next(0));
        source.add("orders", 0, 7, new byte[300_000]);
        assertTrue(feed.next(0));
        feed.passed();
        source.with("orders", 0, 8);
        assertTrue(feed.moreNow());
        assertTrue(feed.next(0));
        assertEquals(8, feed.offset());
    }

    @Test
    void batchesThatHaveAnOriginAreLeftOutAndTheirPositionsMoveOn() {
        source.end("orders", 0, 100);
        source.fetched = new ForeignBatches(
            new TopicPartition("orders", 0),
            ForeignBatches.batch(3, 12, 10),
            // Compaction has left few of it.
            ForeignBatches.batch(20, 99, 7));
        Feed feed = feed(part("orders", 0, 5));
        assertEquals(List.of(), drain(feed));
        assertArrayEquals(new long[] {100}, feed.positions);
        assertEquals(8 + 7, feed.looped);
        assertEquals(0, feed.skipped);
        assertTrue(feed.bytes > 0);
    }

    @Test
    void aBatchThatHasAnOriginAndReachesBeyondTheEndIsLeftOutUpToThere() {
        source.end("orders", 0, 13);
        source.fetched =
            new ForeignBatches(new TopicPartition("orders", 0), ForeignBatches.batch(3, 12, 10));
        Feed feed = feed(part("orders", 0, 3) + ", 'until': 9");
        assertEquals(List.of(), drain(feed));
        assertArrayEquals(new long[] {9}, feed.positions);
        assertEquals(6, feed.looped);
    }

    @Test
    void recordsShowThatTheSourceLivesAndSoDoAnswersWithoutAny() {
        source.end("orders", 0, 3);
        Feed feed = feed(part("orders", 0, 3));
        assertFalse(feed.next(0));
        assertEquals(-1, feed.source.answers.silentNanos());
        source.answers = 1;
        assertFalse(feed.next(0));
        long before = feed.source.answers.silentNanos();
        assertTrue(before >= 0);
        assertFalse(feed.next(0));
        assertTrue(feed.source.answers.silentNanos() > before);
        source.with("orders", 0, 3);
        long asked = System.nanoTime();
        assertTrue(feed.next(0));
        assertTrue(feed.source.answers.silentNanos() <= System.nanoTime() - asked);
    }

    @Test
    void itBeginsAtThePositionsThatItIsGivenAndNotAtThoseOfTheSpec() {
        source.with("orders", 0, 3, 4, 5);
        TaskSpec spec = Specs.task(part("orders", 0, 3));
        long[] positions = {5};
        Feed feed = new Feed(spec, positions, source);
        assertEquals(List.of("0@5"), drain(feed));
        assertArrayEquals(new long[] {6}, feed.positions);
        assertEquals(5, positions[0]);
    }

    @Test
    void aPositionMovesOnlyWhenTheNextRecordIsAskedFor() {
        source.with("orders", 0, 3, 4, 9);
        Feed feed = feed(part("orders", 0, 3));
        assertArrayEquals(new long[] {3}, feed.positions);
        feed.next(0);
        assertEquals(3, feed.record().offset());
        assertArrayEquals(new long[] {3}, feed.positions);
        feed.next(0);
        assertArrayEquals(new long[] {4}, feed.positions);
        feed.next(0);
        assertEquals(9, feed.record().offset());
        assertArrayEquals(new long[] {5}, feed.positions);
        assertFalse(feed.next(0));
        assertNull(feed.record());
        assertArrayEquals(new long[] {10}, feed.positions);
    }

    @Test
    void nothingOfAnotherClusterIsHandedOutAndItsPositionsStay() {
        source.with("orders", 0, 3, 4);
        SameCluster seen = new SameCluster("one");
        seen.onUpdate(new ClusterResource("one"));
        Feed feed = feed(seen);
        assertTrue(feed.next(0));
        source.with("orders", 0, 5);
        // What the first one gave is still handed out, and nothing of the other.
        seen.onUpdate(new ClusterResource("two"));
        seen.onUpdate(new ClusterResource(null));
        assertEquals(List.of("0@4"), drain(feed));
        assertArrayEquals(new long[] {5}, feed.positions);
        assertTrue(feed.error().endsWith("cluster two answers in place of one"), feed.error());
        seen.onUpdate(new ClusterResource("one"));
        within(() -> feed.next(MILLISECOND));
        assertEquals(5, feed.record().offset());
    }

    @Test
    void ofAClusterThatAnswersFirstAndIsNotTheOneThatIsWantedNothingIsRead() {
        source.with("orders", 0, 3, 4);
        SameCluster seen = new SameCluster("one");
        seen.onUpdate(new ClusterResource("two"));
        Feed feed = feed(seen);
        assertEquals(List.of(), drain(feed));
        assertArrayEquals(new long[] {3}, feed.positions);
        assertTrue(feed.error().endsWith("cluster two answers in place of one"), feed.error());
        seen.onUpdate(new ClusterResource("one"));
        source.with("orders", 0, 3);
        within(() -> feed.next(MILLISECOND));
        assertEquals(3, feed.record().offset());
    }

    /** A feed of partition 0 from offset 3 on, whose clients ask {@code seen}. */
    private Feed feed(SameCluster seen) {
        SourceConsumer.Consumers consumers = new SourceConsumer.Consumers() {
            @Override
            public Consumer<byte[], byte[]> open(Map<String, String> settings) {
                return source.open(settings);
            }

            @Override
            public LogEnds.Sight sight(Consumer<byte[], byte[]> consumer) {
                return null;
            }

            @Override
            public Fetched reader(Consumer<byte[], byte[]> consumer) {
                return source.reader(consumer);
            }

            @Override
            public String stranger() {
                return seen.stranger();
            }
        };
        return new Feed(Specs.task(part("orders", 0, 3)), new long[] {3}, consumers);
    }

    @Test
    void aRecordThatIsPassedIsDoneWithoutReadingOn() {
        source.with("orders", 0, 3, 4);
        Feed feed = feed(part("orders", 0, 3));
        feed.next(0);
        feed.passed();
        assertArrayEquals(new long[] {4}, feed.positions);
        assertNull(feed.record());
        feed.passed();
        assertArrayEquals(new long[] {4}, feed.positions);
        assertTrue(feed.next(0));
        assertEquals(4, feed.record().offset());
    }

    @Test
    void moreTellsWhetherTheNextRecordNeedsNoWaiting() {
        source.with("orders", 0, 3, 4).with("orders", 1, 5);
        Feed feed = feed(part("orders", 0, 3), part("orders", 1, 5));
        assertFalse(feed.more());
        for (int left = 2; left >= 0; left--) {
            assertTrue(feed.next(0));
            assertEquals(left > 0, feed.more());
        }
    }

    @Test
    void skippedRecordsAreLeftOutAndPositionsPassThem() {
        source.with("orders", 0, 0, 1, 2, 3, 4, 5, 6, 7);
        Feed feed = feed(part("orders", 0, 1) + ", 'skip': [[2, 4], [5, 6], [7, 8]]");
        assertEquals(List.of("0@1", "0@4", "0@6"), drain(feed));
        assertArrayEquals(new long[] {8}, feed.positions);
        assertEquals(4, feed.skipped);
    }

    @Test
    void aPartitionEndsWhereItIsToBeReadAndTheOthersGoOn() {
        source.with("orders", 0, 0, 1, 2, 3).with("orders", 1, 0, 1, 2, 3);
        Feed feed = feed(part("orders", 0, 0) + ", 'until': 2", part("orders", 1, 0));
        List<String> found = drain(feed);
        assertEquals(Set.of("0@0", "0@1", "1@0", "1@1", "1@2", "1@3"), Set.copyOf(found));
        assertEquals(6, found.size());
        assertArrayEquals(new Feed.State[] {Feed.State.DONE, Feed.State.READING}, feed.states);
        assertArrayEquals(new long[] {2, 4}, feed.positions);
        // It is not even fetched any more.
        assertEquals(Set.of(new TopicPartition("orders", 1)), source.reader().assignment());
    }

    @Test
    void thePositionOfAPartitionThatEndsIsItsEndAlsoWhereNoRecordIsBeforeIt() {
        source.with("orders", 0, 0, 9);
        Feed feed = feed(part("orders", 0, 0) + ", 'until': 5");
        assertEquals(List.of("0@0"), drain(feed));
        assertEquals(Feed.State.DONE, feed.states[0]);
        assertArrayEquals(new long[] {5}, feed.positions);
    }

    @Test
    void aPartitionThatIsAtItsEndOrBeyondIsNotRead() {
        source.with("orders", 0, 0, 1, 2, 3, 4, 5).with("orders", 1, 0, 1, 2, 3, 4, 5);
        Feed feed =
            feed(part("orders", 0, 3) + ", 'until': 3", part("orders", 1, 5) + ", 'until': 3");
        assertArrayEquals(new Feed.State[] {Feed.State.DONE, Feed.State.DONE}, feed.states);
        assertEquals(List.of(), drain(feed));
        assertArrayEquals(new long[] {3, 5}, feed.positions);
    }

    @Test
    void positionsPassWhatIsNoRecordBehindTheLastOne() {
        source.with("orders", 0, 0, 1);
        source.end("orders", 0, 4);
        Feed feed = feed(part("orders", 0, 0));
        drain(feed);
        assertArrayEquals(new long[] {2}, feed.positions);
        feed.followPositions();
        assertArrayEquals(new long[] {4}, feed.positions);
        assertEquals(Feed.State.READING, feed.states[0]);
        source.with("orders", 0, 4);
        assertEquals(List.of("0@4"), drain(feed));
    }

    @Test
    void aPartitionWhosePositionIsNotCertainHoldsUpNoOther() {
        source.with("orders", 0, 0).with("orders", 1, 0);
        source.end("orders", 0, 3);
        source.end("orders", 1, 5);
        Feed feed = feed(part("orders", 0, 0), part("orders", 1, 0));
        drain(feed);
        source.reader().uncertain.add(new TopicPartition("orders", 0));
        feed.followPositions();
        feed.followPositions();
        assertArrayEquals(new long[] {1, 5}, feed.positions);
        assertEquals("", feed.error());
        source.reader().uncertain.clear();
        feed.followPositions();
        assertArrayEquals(new long[] {3, 5}, feed.positions);
    }

    @Test
    void aPartitionEndsAlsoWhereNoRecordIsAtOrBehindItsEnd() {
        source.with("orders", 0, 0, 1).with("orders", 1, 0, 1);
        source.end("orders", 0, 9);
        Feed feed =
            feed(part("orders", 0, 0) + ", 'until': 5", part("orders", 1, 0) + ", 'until': 2");
        drain(feed);
        feed.followPositions();
        assertArrayEquals(new Feed.State[] {Feed.State.DONE, Feed.State.DONE}, feed.states);
        assertArrayEquals(new long[] {5, 2}, feed.positions);
    }

    @Test
    void positionsPassNothingThatIsNotDealtWith() {
        source.with("orders", 0, 0, 1);
        source.end("orders", 0, 4);
        Feed feed = feed(part("orders", 0, 0));
        feed.followPositions();
        assertArrayEquals(new long[] {0}, feed.positions);
        feed.next(0);
        feed.followPositions();
        assertArrayEquals(new long[] {0}, feed.positions);
        feed.passed();
        feed.followPositions();
        assertArrayEquals(new long[] {1}, feed.positions, "record 1 is at hand");
        feed.next(0);
        feed.followPositions();
        assertArrayEquals(new long[] {1}, feed.positions, "record 1 is handed out");
        feed.passed();
        feed.followPositions();
        assertArrayEquals(new long[] {4}, feed.positions);
    }

    @Test
    void aPartitionThatIsHeldIsLeftOutAndTheOthersGoOn() {
        source.with("orders", 0, 0, 1, 2).with("orders", 1, 0, 1, 2);
        Feed feed = feed(part("orders", 0, 0), part("orders", 1, 0));
        feed.hold(Set.of("orders/1", "else/0"));
        assertArrayEquals(new Feed.State[] {Feed.State.READING, Feed.State.HELD}, feed.states);
        assertEquals(List.of("0@0", "0@1", "0@2"), drain(feed));
        assertArrayEquals(new long[] {3, 0}, feed.positions);
        feed.hold(Set.of("orders/0"));
        assertEquals(List.of("1@0", "1@1", "1@2"), drain(feed));
        feed.hold(Set.of());
        source.with("orders", 0, 3);
        assertEquals(List.of("0@3"), drain(feed));
    }

    @Test
    void theRecordThatWasHandedOutIsDoneWhenItsPartitionIsHeld() {
        source.with("orders", 0, 0, 1, 2);
        Feed feed = feed(part("orders", 0, 0));
        feed.next(0);
        feed.hold(Set.of("orders/0"));
        assertArrayEquals(new long[] {1}, feed.positions);
        assertEquals(List.of(), drain(feed));
        feed.hold(Set.of());
        assertEquals(List.of("0@1", "0@2"), drain(feed));
    }

    @Test
    void theSameHoldAgainFetchesNothingAnew() {
        source.with("orders", 0, 0, 1, 2).with("orders", 1, 0);
        Feed feed = feed(part("orders", 0, 0), part("orders", 1, 0));
        feed.hold(Set.of("orders/1"));
        feed.next(0);
        feed.hold(Set.of("orders/1"));
        assertTrue(feed.more());
        drain(feed);
        assertEquals(1, source.reader().assigned);
    }

    @Test
    void aPartitionThatHasEndedStaysSoWhenItIsHeldAndReleased() {
        source.with("orders", 0, 0, 1);
        Feed feed = feed(part("orders", 0, 0) + ", 'until': 1");
        drain(feed);
        feed.hold(Set.of("orders/0"));
        assertEquals(Feed.State.DONE, feed.states[0]);
        feed.hold(Set.of());
        assertEquals(Feed.State.DONE, feed.states[0]);
    }

    @Test
    void everyRecordIsHandedOutOnceAndInOrderWhateverIsHeldAndReleased() {
        for (int seed = 0; seed < 200; seed++) {
            new Walk(seed).run();
        }
    }

    @Test
    void aPartitionWhoseLogDoesNotHoldItsPositionIsOutOfRangeAndTheOthersGoOn() {
        source.with("orders", 0, 0, 1, 2, 3).with("orders", 1, 0, 1).with("orders", 2, 0);
        source.start("orders", 0, 2);
        Feed feed = feed(part("orders", 0, 1), part("orders", 1, 0), part("orders", 2, 7));
        assertEquals(List.of("1@0", "1@1"), drain(feed));
        assertArrayEquals(
            new Feed.State[] {Feed.State.OUT_OF_RANGE, Feed.State.READING, Feed.State.OUT_OF_RANGE},
            feed.states);
        assertArrayEquals(new long[] {1, 2, 7}, feed.positions);
        assertTrue(feed.reasons[0].startsWith("OffsetOutOfRangeException: "), feed.reasons[0]);
        assertTrue(feed.reasons[0].contains("orders-0=1"), feed.reasons[0]);
        assertTrue(feed.reasons[2].contains("orders-2=7"), feed.reasons[2]);
        assertNull(feed.reasons[1]);
        assertEquals("", feed.error());
        assertEquals(1, source.opened.size());
    }

    @Test
    void anOutOfRangePartitionStaysSoWhenItIsHeldAndReleased() {
        source.with("orders", 0, 0, 1, 2, 3);
        source.start("orders", 0, 2);
        Feed feed = feed(part("orders", 0, 1));
        drain(feed);
        feed.hold(Set.of("orders/0"));
        feed.hold(Set.of());
        assertEquals(Feed.State.OUT_OF_RANGE, feed.states[0]);
    }

    @Test
    void fromWhereALogIsAnotherOneIsToldAndTheOthersGoOn() {
        source.with("orders", 0, 0, 1, 2, 3).with("orders", 1, 0, 1);
        source.cuts.put(new TopicPartition("orders", 0), 2L);
        Feed feed = feed(part("orders", 0, 3), part("orders", 1, 0));
        assertEquals(List.of("1@0", "1@1"), drain(feed));
        assertArrayEquals(
            new Feed.State[] {Feed.State.OUT_OF_RANGE, Feed.State.READING}, feed.states);
        assertArrayEquals(new long[] {3, 2}, feed.positions);
        assertArrayEquals(new long[] {2, -1}, feed.cuts);
        assertEquals(1, source.opened.size());
    }

    @Test
    void itSeeksWithTheEpochOfTheLastRecordUnlessSomethingElseCameBehindThat() {
        TopicPartition name = new TopicPartition("orders", 0);
        source.epoch = 7;
        source.with("orders", 0, 0, 1);
        Feed feed = feed(part("orders", 0, 0));
        drain(feed);
        assertEquals(Optional.empty(), source.reader().epochs.get(name));
        feed.hold(Set.of("orders/0"));
        drain(feed);
        feed.hold(Set.of());
        drain(feed);
        assertEquals(Optional.of(7), source.reader().epochs.get(name));
        // Markers of a later leader, in whose epoch the position is now.
        source.end("orders", 0, 4);
        drain(feed);
        feed.followPositions();
        assertArrayEquals(new long[] {4}, feed.positions);
        feed.hold(Set.of("orders/0"));
        drain(feed);
        feed.hold(Set.of());
        drain(feed);
        assertEquals(Optional.empty(), source.reader().epochs.get(name));
    }

    @Test
    void aPartitionWhoseNextRecordCannotBeReadIsDamagedAndTheOthersGoOn() {
        source.with("orders", 0, 0, 1, 2, 3).with("orders", 1, 0, 1).with("orders", 11, 0);
        source.damaged.put(new TopicPartition("orders", 1), 1L);
        Feed feed = feed(part("orders", 0, 0), part("orders", 1, 0), part("orders", 11, 0));
        List<String> found = drain(feed);
        assertEquals(Set.of("0@0", "0@1", "0@2", "0@3", "1@0", "2@0"), Set.copyOf(found));
        assertArrayEquals(
            new Feed.State[] {Feed.State.READING, Feed.State.DAMAGED, Feed.State.READING},
            feed.states);
        assertArrayEquals(new long[] {4, 1, 1}, feed.positions);
        assertEquals(
            "offset 1 of orders-1 cannot be read: Record batch for partition orders-1 is invalid",
            feed.reasons[1]);
        assertEquals("", feed.error());
        assertEquals(1, source.opened.size());
        // Neither a hold nor a look at the positions changes that.
        feed.hold(Set.of("orders/1"));
        feed.hold(Set.of());
        feed.followPositions();
        assertEquals(Feed.State.DAMAGED, feed.states[1]);
        assertEquals(1, feed.positions[1]);
    }

    @Test
    void whileALogInHangsNothingIsWaitedForAndThenAllIsRead() {
        source.with("orders", 0, 0, 1);
        source.login = new CountDownLatch(1);
        Feed feed = feed(part("orders", 0, 0));
        long start = System.nanoTime();
        assertFalse(feed.next(0));
        assertFalse(feed.next(MILLISECOND));
        feed.followPositions();
        assertTrue(System.nanoTime() - start < DEADLINE_NANOS, "it waits");
        assertEquals("", feed.error());
        within(() -> {
            assertFalse(feed.next(100 * MILLISECOND));
            return feed.error().contains("log in");
        });
        source.login.countDown();
        within(() -> feed.next(MILLISECOND));
        assertEquals(0, feed.record().offset());
        assertEquals("", feed.error());
        assertEquals(1, source.opened.size());
    }

    @Test
    void aConsumerThatComesToBeWhenNobodyWantsItIsClosed() {
        source.with("orders", 0, 0);
        source.login = new CountDownLatch(1);
        Feed feed = feed(part("orders", 0, 0));
        assertFalse(feed.next(0));
        feed.close();
        source.login.countDown();
        within(() -> !source.opened.isEmpty() && source.reader().closed());
    }

    @Test
    void aTopicThatMayNotBeReadIsRefusedAndTheOthersGoOn() {
        source.with("orders", 0, 0, 1).with("secret", 0, 0).with("secret", 1, 0);
        source.refused.add("secret");
        Feed feed = feed(part("secret", 0, 0), part("orders", 0, 0), part("secret", 1, 0));
        assertFalse(feed.next(0));
        assertArrayEquals(
            new Feed.State[] {Feed.State.REFUSED, Feed.State.READING, Feed.State.REFUSED},
            feed.states);
        assertTrue(feed.reasons[0].startsWith("TopicAuthorizationException: "), feed.reasons[0]);
        assertTrue(feed.reasons[2].contains("secret"), feed.reasons[2]);
        assertNull(feed.reasons[1]);
        assertEquals(List.of("1@0", "1@1"), drain(feed));
        assertEquals("", feed.error(), "the cluster gives something");
        assertEquals(Feed.State.REFUSED, feed.states[0]);
        assertEquals(1, source.opened.size());
    }

    @Test
    void partitionsOfARefusedTopicThatAreNotReadStayAsTheyAre() {
        source.with("secret", 0, 0).with("secret", 1, 0).with("secret", 2, 0);
        source.refused.add("secret");
        Feed feed =
            feed(part("secret", 0, 0) + ", 'until': 0", part("secret", 1, 0), part("secret", 2, 0));
        feed.hold(Set.of("secret/1"));
        assertEquals(List.of(), drain(feed));
        assertArrayEquals(
            new Feed.State[] {Feed.State.DONE, Feed.State.HELD, Feed.State.REFUSED}, feed.states);
        assertNull(feed.reasons[0]);
        assertNull(feed.reasons[1]);
    }

    @Test
    void aFailureIsToldAndANewConsumerGoesOnFromThePositions() {
        source.with("orders", 0, 0, 1, 2, 3);
        source.atOnce = () -> 2;
        Feed feed = feed(part("orders", 0, 0));
        feed.next(0);
        feed.next(0);
        source.reader().setPollException(new KafkaException("the disk is on fire"));
        assertFalse(feed.next(0));
        assertEquals("KafkaException: the disk is on fire", feed.error());
        assertTrue(source.reader().closed());
        assertEquals(Feed.State.READING, feed.states[0]);
        // Nothing is tried for a while.
        assertFalse(feed.next(0));
        assertEquals(1, source.opened.size());
        within(() -> feed.next(5 * MILLISECOND));
        assertEquals(2, source.opened.size());
        assertEquals(2, feed.record().offset());
        assertEquals("", feed.error());
        assertEquals(List.of("0@3"), drain(feed));
    }

    @Test
    void aConsumerThatCannotBeMadeIsAFailureAndIsTriedAgain() {
        source.with("orders", 0, 0);
        source.openFailures.add(new KafkaException());
        Feed feed = feed(part("orders", 0, 0));
        assertFalse(feed.next(0));
        assertEquals("KafkaException", feed.error());
        within(() -> feed.next(5 * MILLISECOND));
        assertEquals(0, feed.record().offset());
        assertEquals(2, source.settings.size());
        assertEquals("", feed.error());
    }

    @Test
    void aFailureWhilePositionsAreFollowedIsToldAndNothingIsLost() {
        source.with("orders", 0, 0);
        Feed feed = feed(part("orders", 0, 0));
        drain(feed);
        source.reader().positionFailure = new KafkaException("no position");
        feed.followPositions();
        assertEquals("KafkaException: no position", feed.error());
        assertTrue(source.reader().closed());
        assertArrayEquals(new long[] {1}, feed.positions);
        source.with("orders", 0, 1);
        within(() -> feed.next(5 * MILLISECOND));
        assertEquals(1, feed.record().offset());
    }

    @Test
    void whatWasRefusedIsTriedAgainWithANewConsumerUnlessItIsHeld() {
        source.with("orders", 0, 0).with("secret", 0, 0).with("secret", 1, 0, 1);
        source.refused.add("secret");
        Feed feed = feed(part("orders", 0, 0), part("secret", 0, 0), part("secret", 1, 0));
        drain(feed);
        assertEquals(Feed.State.REFUSED, feed.states[2]);
        feed.hold(Set.of("secret/1"));
        assertNull(feed.reasons[2]);
        source.refused.clear();
        source.reader().setPollException(new KafkaException("gone"));
        assertFalse(feed.next(0));
        assertArrayEquals(
            new Feed.State[] {Feed.State.READING, Feed.State.READING, Feed.State.HELD},
            feed.states);
        assertNull(feed.reasons[1]);
        within(() -> feed.next(5 * MILLISECOND));
        assertEquals("1@0", feed.part + "@" + feed.record().offset());
        assertEquals(List.of(), drain(feed));
        feed.hold(Set.of());
        assertEquals(List.of("2@0", "2@1"), drain(feed));
    }

    @Test
    @Timeout(60)
    void aNextThatWaitsEndsWhenItIsWoken() throws Exception {
        source.with("orders", 0, 0);
        source.waiting = new CountDownLatch(1);
        Feed feed = feed(part("orders", 0, 0));
        ExecutorService thread = Executors.newSingleThreadExecutor();
        try {
            Future<Boolean> next = thread.submit(() -> feed.next(3_600_000 * MILLISECOND));
            source.waiting.await();
            feed.wake();
            assertFalse(next.get());
        } finally {
            thread.shutdownNow();
        }
        source.waiting = null;
        assertEquals("", feed.error());
        assertEquals(List.of("0@0"), drain(feed));
        assertEquals(1, source.opened.size());
    }

    @Test
    void aWakeBeforeThereIsAConsumerDoesNothing() {
        source.with("orders", 0, 0);
        Feed feed = feed(part("orders", 0, 0));
        feed.wake();
        assertTrue(feed.next(0));
    }

    @Test
    void aPartitionStopsBeforeTheRecordThatTheHubRefusesAndTheOthersGoOn() {
        source.with("orders", 0, 0, 1, 2, 3).with("orders", 1, 0, 1, 2);
        // Some of what follows the record is at hand, and some is still to be fetched.
        source.atOnce = () -> 3;
        Feed feed = feed(part("orders", 0, 0), part("orders", 1, 0));
        List<String> found = new ArrayList<>();
        while (feed.next(0)) {
            found.add(feed.part + "@" + feed.record().offset());
            if (found.contains("0@1")) {
                break;
            }
        }
        feed.stop(Feed.State.POISONED, "too large");
        assertNull(feed.record());
        assertEquals(Feed.State.POISONED, feed.states[0]);
        assertEquals("too large", feed.reasons[0]);
        found.addAll(drain(feed));
        assertEquals(Set.of("0@0", "0@1", "1@0", "1@1", "1@2"), Set.copyOf(found));
        assertEquals(5, found.size());
        assertArrayEquals(new long[] {1, 3}, feed.positions);
        // Neither a hold nor a look at the positions changes that.
        feed.hold(Set.of("orders/0"));
        feed.hold(Set.of());
        feed.followPositions();
        assertEquals(List.of(), drain(feed));
        assertEquals(Feed.State.POISONED, feed.states[0]);
        assertArrayEquals(new long[] {1, 3}, feed.positions);
    }

    @Test
    void aPartitionThatWaitsGoesOnWithTheSameRecordAndTheOthersMeanwhile() {
        source.with("orders", 0, 0, 1, 2).with("orders", 1, 0, 1);
        Feed feed = feed(part("orders", 0, 0), part("orders", 1, 0));
        List<String> found = new ArrayList<>();
        while (!found.contains("0@1") && feed.next(0)) {
            found.add(feed.part + "@" + feed.record().offset());
        }
        feed.stop(Feed.State.AWAITING, "it waits");
        found.addAll(drain(feed));
        assertEquals(Set.of("0@0", "0@1", "1@0", "1@1"), Set.copyOf(found));
        assertEquals(Feed.State.AWAITING, feed.states[0]);
        assertArrayEquals(new long[] {1, 2}, feed.positions);
        feed.resume();
        assertNull(feed.reasons[0]);
        assertEquals(List.of("0@1", "0@2"), drain(feed));
        assertArrayEquals(new long[] {3, 2}, feed.positions);
    }

    @Test
    void aPartitionThatWaitsCanBeHeld() {
        source.with("orders", 0, 0, 1);
        Feed feed = feed(part("orders", 0, 0));
        assertTrue(feed.next(0));
        feed.stop(Feed.State.AWAITING, "it waits");
        feed.hold(Set.of("orders/0"));
        assertEquals(Feed.State.HELD, feed.states[0]);
        feed.resume();
        assertEquals(List.of(), drain(feed));
        assertArrayEquals(new long[] {0}, feed.positions);
        feed.hold(Set.of());
        assertEquals(List.of("0@0", "0@1"), drain(feed));
    }

    @Test
    void closingEndsTheConsumerAndDoesNotCountTheRecordThatWasHandedOut() {
        source.with("orders", 0, 0, 1);
        Feed feed = feed(part("orders", 0, 0));
        feed.next(0);
        feed.close();
        assertTrue(source.reader().closed());
        assertNull(feed.record());
        assertFalse(feed.more());
        assertArrayEquals(new long[] {0}, feed.positions);
        feed.wake();
        feed.close();
        feed(part("orders", 0, 0)).close();
    }

    @Test
    void anInterruptIsThrown() {
        source.with("orders", 0, 0);
        Feed feed = feed(part("orders", 0, 0));
        drain(feed);
        source.reader().setPollException(new InterruptException("killed"));
        // Kafka sets the flag of the thread when it makes such an exception.
        assertTrue(Thread.interrupted());
        assertThrows(InterruptException.class, () -> feed.next(0));
        assertFalse(source.reader().closed());
        assertEquals("", feed.error());
        // The same while it waits for partitions to be there.
        feed.hold(Set.of("orders/0"));
        Thread.currentThread().interrupt();
        assertThrows(InterruptException.class, () -> feed.next(3_600_000 * MILLISECOND));
        assertTrue(Thread.interrupted());
    }

    /** Random steps of a task over partitions with gaps, ends, and offsets that are skipped. */
    private static final class Walk {
        private static final int PARTS = 4;

        private final String seed;
        private final Random random;
        private final SourceLog source = new SourceLog();
        /** What must be handed out of each partition, and how much of that was. */
        private final List<List<Long>> expected = new ArrayList<>();
        private final int[] handedOut = new int[PARTS];
        private final long[] until = new long[PARTS];
        private final Feed feed;
        private Set<String> held = Set.of();

        private Walk(int seed) {
            this.seed = "seed " + seed;
            random = new Random(seed);
            source.atOnce = () -> random.nextInt(5);
            String[] parts = new String[PARTS];
            for (int i = 0; i < PARTS; i++) {
                parts[i] = partition(i);
            }
            feed = feed(source, parts);
        }

        /** Fills the log of a partition, and says what a task needs to know of it. */
        private String partition(int number) {
            List<Long> wanted = new ArrayList<>();
            long position = random.nextInt(10);
            long from = 10 + random.nextInt(20);
            long to = from + random.nextInt(10);
            boolean ends = random.nextInt(3) == 0;
            until[number] = ends ? 20 + random.nextInt(40) : Long.MAX_VALUE;
            long last = 40 + random.nextInt(30);
            for (long offset = 0; offset < last; offset++) {
                if (random.nextInt(5) == 0) {
                    continue;
                }
                source.with(topic(number), number % 2, offset);
                boolean skipped = from <= offset && offset < to;
                if (offset >= position && offset < until[number] && !skipped) {
                    wanted.add(offset);
                }
            }
            // Behind the last record may be markers.
            source.end(topic(number), number % 2, last + random.nextInt(3));
            expected.add(wanted);
            return part(topic(number), number % 2, position) + ", 'skip': [[" + from + ", " + to
                + "]]" + (ends ? ", 'until': " + until[number] : "");
        }

        private void run() {
            for (int step = 0; step < 150; step++) {
                step();
            }
            hold(Set.of());
            for (int step = 0; step < 2000 && !isAllHandedOut(); step++) {
                next();
            }
            for (int i = 0; i < PARTS; i++) {
                assertEquals(expected.get(i).size(), handedOut[i], seed);
            }
            feed.passed();
            source.atOnce = () -> 500;
            assertFalse(feed.next(0), seed);
            assertFalse(feed.next(0), seed);
            feed.followPositions();
            for (int i = 0; i < PARTS; i++) {
                boolean ended = feed.positions[i] >= until[i];
                assertEquals(ended ? Feed.State.DONE : Feed.State.READING, feed.states[i], seed);
            }
        }

        private void step() {
            switch (random.nextInt(12)) {
                case 0:
                    Set<String> names = new HashSet<>();
                    for (int i = 0; i < PARTS; i++) {
                        if (random.nextInt(3) == 0) {
                            names.add(name(i));
                        }
                    }
                    hold(names);
                    break;
                case 1:
                    hold(Set.of());
                    break;
                case 2:
                    feed.wake();
                    break;
                case 3:
                    feed.followPositions();
                    break;
                default:
                    next();
            }
            checkPositions();
        }

        private void hold(Set<String> names) {
            held = names;
            feed.hold(names);
        }

        private void next() {
            if (!feed.next(0)) {
                return;
            }
            int part = feed.part;
            assertFalse(held.contains(name(part)), seed);
            assertEquals(name(part), feed.record().topic() + "/" + feed.record().partition(), seed);
            assertTrue(handedOut[part] < expected.get(part).size(), seed);
            assertEquals(expected.get(part).get(handedOut[part]++), feed.record().offset(), seed);
            assertTrue(feed.positions[part] <= feed.record().offset(), seed);
        }

        /** Positions cover all that was dealt with, and nothing that is still to come. */
        private void checkPositions() {
            for (int i = 0; i < PARTS; i++) {
                boolean outside = feed.record() != null && feed.part == i;
                int dealt = handedOut[i] - (outside ? 1 : 0);
                if (dealt > 0) {
                    assertTrue(feed.positions[i] > expected.get(i).get(dealt - 1), seed);
                }
                if (dealt < expected.get(i).size()) {
                    assertTrue(feed.positions[i] <= expected.get(i).get(dealt), seed);
                }
            }
        }

        private boolean isAllHandedOut() {
            int all = expected.stream().mapToInt(List::size).sum();
            return Arrays.stream(handedOut).sum() == all;
        }

        private static String topic(int number) {
            return number < 2 ? "orders" : "payments";
        }

        private static String name(int number) {
            return topic(number) + "/" + number % 2;
        }
    }

    private Feed feed(String... parts) {
        return feed(source, parts);
    }

    private static Feed feed(SourceLog source, String... parts) {
        TaskSpec spec = Specs.task(parts);
        long[] positions = spec.parts.stream().mapToLong(part -> part.position).toArray();
        return new Feed(spec, positions, source);
    }

    private static String part(String topic, int partition, long position) {
        return "'topic': '" + topic + "', 'partition': " + partition + ", 'position': " + position;
    }

    /** Reads on as long as there is something, and returns what came: "part@offset". */
    private static List<String> drain(Feed feed) {
        List<String> found = new ArrayList<>();
        int silent = 0;
        while (silent < 4) {
            if (feed.next(0)) {
                found.add(feed.part + "@" + feed.record().offset());
                silent = 0;
            } else {
                silent++;
            }
        }
        return found;
    }

    /** Asks again and again until it is so; fails when it is not within ten seconds. */
    private static void within(BooleanSupplier condition) {
        long start = System.nanoTime();
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() - start < DEADLINE_NANOS, "not within ten seconds");
        }
    }
}
