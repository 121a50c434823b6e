package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
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
