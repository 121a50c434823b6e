package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class TaskSpecTest {
    private static final byte[] ODD = {(byte) 0xff, (byte) 0x80, 0};
    private static final byte[] LIKE = {(byte) 0xfe, (byte) 0x80, 0};

    @Test
    void aRecordIsReplacedWhenTheHubHasALaterOneOfItsKey() {
        // Records 6 and 7 are in the hub; of the key é it is 6, and of the odd one another, 4.
        TaskSpec.Part part =
            part("key", place(0, ODD, 4), place(3, bytes("é"), 6), place(1, new byte[0], 6));
        assertTrue(part.isReplaced(ODD, 0, 0));
        assertFalse(part.isReplaced(LIKE, 0, 1));
        assertTrue(part.isReplaced(bytes("é"), 3, 2));
        assertFalse(part.isReplaced(null, 0, 3));
        assertFalse(part.isReplaced(ODD, 0, 4));
        assertTrue(part.isReplaced(new byte[0], 1, 5));
        assertFalse(part.isReplaced(bytes("é"), 3, 6));
    }

    @Test
    void aKeyThatKeepsToOnePartitionMayHaveMovedWhenTheTopicGrew() {
        TaskSpec.Part part = part("key", place(0, ODD, 4), place(3, ODD, 6));
        assertTrue(part.isReplaced(ODD, 2, 5));
    }

    @Test
    void whereKeysAreSpreadOnlyTheSamePartitionCounts() {
        TaskSpec.Part part = part("round_robin", place(1, ODD, 6));
        assertTrue(part.isReplaced(ODD, 1, 5));
        assertFalse(part.isReplaced(ODD, 0, 4));
    }

    @Test
    void whatAnotherTopicHoldsReplacesNothing() {
        TaskSpec.Part part = part("key", place(0, ODD, 6).replace("hub.orders", "hub.before"));
        assertFalse(part.isReplaced(ODD, 0, 0));
    }

    @Test
    void aKeyMayBeAsLargeAsARecord() {
        byte[] key = new byte[20_000_000];
        Arrays.fill(key, (byte) 'k');
        TaskSpec.Part part = part("key", place(0, key, 6));
        assertEquals(1, part.later.get(0).size());
        assertTrue(part.isReplaced(key, 0, 0));
    }

    @Test
    void aTaskHasThePlacesOfWhatItReadsAloneAndThenThoseOfRecordsThatAreSetAside() {
        TaskSpec spec = Specs.routed(List.of(5, 3, 9, 2, 3), 4, 3, 1, 3);
        assertEquals(
            List.of(
                "hub.3/0",
                "hub.3/1",
                "hub.3/2",
                "hub.2/0",
                "hub.2/1",
                "hub.refused/0",
                "hub.twice/0"),
            places(spec));
        assertEquals(5, spec.quarantinePlace);
        assertEquals(6, spec.duplicatesPlace);
    }

    @Test
    void aPartitionWritesWhereItsRouteInTheLaneSays() {
        List<Integer> hubTopics = List.of(5, 3, 9, 2, 3);
        for (int first = 0; first < hubTopics.size(); first++) {
            for (int second = 0; second < hubTopics.size(); second++) {
                TaskSpec spec = Specs.routed(hubTopics, first, second);
                assertEquals("hub." + hubTopics.get(first) + "/1", place(spec, 0));
                assertEquals("hub." + hubTopics.get(second) + "/1", place(spec, 1));
            }
        }
    }

    @Test
    void aTaskWithoutPartitionsHasNoPlacesButThoseOfRecordsThatAreSetAside() {
        assertEquals(List.of("hub.refused/0", "hub.twice/0"), places(Specs.routed(List.of(5))));
    }

    private static String place(TaskSpec spec, int at) {
        TaskSpec.Part part = spec.parts.get(at);
        int own = part.route.firstPlace + part.route.placement.of(null, part.partition, 0L);
        return places(spec).get(own);
    }

    private static List<String> places(TaskSpec spec) {
        assertEquals(spec.placeTopics.size(), spec.placePartitions.size());
        return IntStream.range(0, spec.placeTopics.size())
            .mapToObj(i -> spec.placeTopics.get(i) + "/" + spec.placePartitions.get(i))
            .toList();
    }

    private static TaskSpec.Part part(String by, String... places) {
        TaskSpec spec = Specs.by(
            by,
            "'topic': 'orders', 'partition': 0, 'position': 0, 'skip': [[6, 8]], 'later': ["
                + String.join(", ", places) + "]");
        return spec.parts.get(0);
    }

    private static String place(int partition, byte[] key, long offset) {
        String base64 = Base64.getEncoder().encodeToString(key);
        return "['hub.orders', " + partition + ", [['" + base64 + "', " + offset + "]]]";
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
