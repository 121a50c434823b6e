package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.junit.jupiter.api.Test;

class EventRuleTest {
    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String described(byte[] id) {
        return id == null ? null : EventHash.describe(id);
    }

    private static String inValue(String path, String value) {
        EventRule rule = new EventRule("value:$." + path, 1);
        return described(rule.id(null, value == null ? null : bytes(value), new RecordHeaders()));
    }

    @Test
    void aKeyIsAnIdAsItIs() {
        EventRule rule = new EventRule("key", 1);
        assertEquals("k", described(rule.id(bytes("k"), null, new RecordHeaders())));
        assertNull(rule.id(null, bytes("v"), new RecordHeaders()));
        assertNull(rule.id(new byte[0], bytes("v"), new RecordHeaders()));
    }

    @Test
    void ofHeadersOfThatNameTheLastOneCounts() {
        EventRule rule = new EventRule("header:id", 1);
        RecordHeaders headers = new RecordHeaders();
        assertNull(rule.id(bytes("k"), bytes("v"), headers));
        headers.add("id", bytes("1")).add("ID", bytes("3")).add("id", bytes("2"));
        assertEquals("2", described(rule.id(null, null, headers)));
        headers.add("id", null);
        assertNull(rule.id(null, null, headers));
    }

    @Test
    void aPathLeadsIntoObjectsToTextNumbersAndTruth() {
        assertEquals("x", inValue("id", "{'a': [1, {'id': 2}], 'id': 'x'}".replace('\'', '"')));
        assertEquals("7", inValue("a.b", "{\"b\": 1, \"a\": {\"c\": {\"b\": 2}, \"b\": 7}}"));
        assertEquals("1.50", inValue("id", "{\"id\": 1.50}"));
        assertEquals("true", inValue("id", "{\"id\": true, and no JSON behind it"));
    }

    @Test
    void theIdIsFoundHoweverLongOrDeepTheRestIs() {
        String name = "n".repeat(60_000);
        assertEquals("x", inValue("id", "{\"" + name + "\": 1, \"id\": \"x\"}"));
        assertEquals(
            "x",
            inValue(
                "id",
                "{\"n\": "
                    + "7".repeat(2_000) + ", \"id\": \"x\"}"));
        for (String pair : new String[] {"[]", "{\"a\":}"}) {
            String open = pair.substring(0, pair.length() - 1);
            String deep =
                open.repeat(100_000) + "[1]" + pair.substring(pair.length() - 1).repeat(100_000);
            assertEquals("x", inValue("id", "{\"deep\": " + deep + ", \"id\": \"x\"}"));
        }
        String digits = "7".repeat(2_000);
        assertEquals(EventHash.describe(bytes(digits)), inValue("id", "{\"id\": " + digits + "}"));
    }

    @Test
    void whereThePathLeadsToNothingThereIsNoId() {
        for (String value : new String[] {
                 "{}",
                 "{\"id\": null}",
                 "{\"id\": \"\"}",
                 "{\"id\": {}}",
                 "{\"id\": [1]}",
                 "{\"ID\": 1}",
                 "[{\"id\": 1}]",
                 "\"id\"",
                 "no JSON",
                 "",
                 null}) {
            assertNull(inValue("id", value), value);
            assertNull(inValue("id.more", value), value);
        }
        assertNull(inValue("a.b", "{\"a\": 1, \"b\": 2}"));
    }

    @Test
    void anIdIsDescribedAsTextIfItIsOne() {
        assertEquals("grün", EventHash.describe(bytes("grün")));
        assertEquals("0x00ff", EventHash.describe(new byte[] {0, -1}));
        assertEquals(203, EventHash.describe(bytes("a".repeat(1_000))).length());
        assertEquals(2 + 128 + 3, EventHash.describe(new byte[1_000]).length());
    }
}
