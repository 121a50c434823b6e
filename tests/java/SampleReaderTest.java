package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CancellationException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class SampleReaderTest {
    private static final TopicPartition ONE = new TopicPartition("orders", 0);
    private static final TopicPartition TWO = new TopicPartition("payments", 0);

    private final SourceLog source = new SourceLog();
    private final Map<TopicPartition, Long> ends = new HashMap<>();

    @Test
    void readsTheWantedRecordsOfAllPartitions() {
        source.with("orders", 0, 0, 1, 2, 3, 4, 5).with("payments", 0, 10, 11, 12);
        SampleReader reader = read(9, Map.of(ONE, List.of(5L, 0L, 3L), TWO, List.of(10L, 12L)));
        assertEquals(
            Set.of("orders@0", "orders@3", "orders@5", "payments@10", "payments@12"),
            found(reader));
        assertEquals(Map.of(), reader.silent);
        assertEquals(1, source.opened.size());
        assertTrue(source.reader().closed());
    }

    @Test
    void noMoreThanEnoughAreRead() {
        source.with("orders", 0, 0, 1, 2, 3, 4, 5);
        assertEquals(
            Set.of("orders@4", "orders@1"), found(read(2, Map.of(ONE, List.of(4L, 1L, 2L)))));
    }

    @Test
    void whatIsNotThereDoesNotCount() {
        source.with("orders", 0, 4, 6, 9);
        source.start("orders", 0, 3);
        source.end("orders", 0, 12);
        // Deleted, compacted away, a marker, at the end, beyond it.
        List<Long> wanted = List.of(0L, 5L, 10L, 12L, 40L, 6L, 9L);
        SampleReader reader = read(2, Map.of(ONE, wanted));
        assertEquals(Set.of("orders@6", "orders@9"), found(reader));
        assertEquals(Map.of(), reader.ends);
    }

    @Test
    void ofALogInWhichNoneIsThereTheEndIsReported() {
        source.with("orders", 0, 0, 1).with("payments", 0, 0);
        ends.put(ONE, 2L);
        SampleReader reader = read(2, Map.of(ONE, List.of(2L, 7L), TWO, List.of(0L)));
        assertEquals(Map.of(ONE, 2L), reader.ends);
        assertEquals(Set.of("payments@0"), found(reader));
    }

    @Test
    void aTopicThatMayNotBeReadHoldsUpNoOther() {
        source.with("orders", 0, 0).with("payments", 0, 0);
        source.refused.add("orders");
        SampleReader reader = read(2, Map.of(ONE, List.of(0L), TWO, List.of(0L)));
        assertEquals(Set.of(ONE), reader.silent.keySet());
        assertEquals(Set.of("payments@0"), found(reader));
    }

    @Test
    void aSourceThatGivesNoAnswerIsSilentAndWhatItAnsweredBeforeIsKept() {
        source.with("orders", 0, 0);
        source.end("payments", 0, 3);
        SampleReader reader =
            new SampleReader(Map.of(ONE, List.of(0L), TWO, List.of(3L)), 2, 200, () -> false);
        reader.read(() -> {
            SourceLog.Reader mute = source.open(Map.of());
            // Where it ends is unknown.
            mute.updateEndOffsets(Map.of(TWO, 9L));
            return mute;
        });
        assertEquals(Map.of(TWO, "it gives no answer"), reader.silent);
        assertEquals(Set.of("orders@0"), found(reader));
    }

    @Test
    void oneThatRefusesTheLoginIsSilent() {
        source.openFailures.add(new SaslAuthenticationException("wrong password"));
        SampleReader reader = read(2, Map.of(ONE, List.of(0L), TWO, List.of(0L)));
        assertEquals(Map.of(ONE, "wrong password", TWO, "wrong password"), reader.silent);
    }

    @Test
    void aRecordThatCannotBeReadHoldsUpNoOther() {
        holdsUpNoOther(new KafkaException("a damaged batch"));
    }

    @Test
    void norDoesOneThatABrokerDoesNotHandOut() {
        holdsUpNoOther(new IllegalStateException("Unexpected error code 99 while fetching"));
    }

    private void holdsUpNoOther(RuntimeException failure) {
        Map<TopicPartition, List<Long>> wanted = new HashMap<>();
        for (int i = 0; i < 9; i++) {
            source.with("orders", i, 0, 1);
            wanted.put(new TopicPartition("orders", i), List.of(0L, 1L));
        }
        TopicPartition bad = new TopicPartition("orders", 4);
        SampleReader reader = new SampleReader(wanted, 2, 60_000, () -> false);
        reader.read(() -> new Damaged(source.open(Map.of()), bad, failure).consumer);
        assertEquals(17, reader.found.size(), found(reader).toString());
        assertEquals(Map.of(), reader.silent);
    }

    @Test
    void itCanBeCancelled() {
        SampleReader reader = new SampleReader(Map.of(ONE, List.of(0L)), 2, 60_000, () -> true);
        assertThrows(CancellationException.class, () -> reader.read(() -> source.open(Map.of())));
        assertTrue(source.reader().closed());
    }

    /** A consumer that cannot read offset 0 of one partition. */
    private static final class Damaged {
        final org.apache.kafka.clients.consumer.Consumer<byte[], byte[]> consumer;

        @SuppressWarnings("unchecked")
        Damaged(SourceLog.Reader real, TopicPartition bad, RuntimeException failure) {
            consumer = (org.apache.kafka.clients.consumer.Consumer<byte[], byte[]>)
                           java.lang.reflect.Proxy.newProxyInstance(
                               Damaged.class.getClassLoader(),
                               new Class<?>[] {org.apache.kafka.clients.consumer.Consumer.class},
                               (self, method, arguments) -> {
                                   boolean polls = method.getName().equals("poll");
                                   if (polls && real.assignment().contains(bad)
                                       && real.position(bad) == 0) {
                                       throw failure;
                                   }
                                   return method.invoke(real, arguments);
                               });
        }
    }

    private SampleReader read(int enough, Map<TopicPartition, List<Long>> wanted) {
        SampleReader reader = new SampleReader(wanted, enough, 60_000, () -> false);
        reader.read(() -> {
            SourceLog.Reader consumer = source.open(Map.of());
            consumer.updateEndOffsets(ends);
            return consumer;
        });
        return reader;
    }

    private static Set<String> found(SampleReader reader) {
        Set<String> all = new TreeSet<>();
        reader.found.forEach(record -> all.add(record.topic() + "@" + record.offset()));
        return all;
    }
}
