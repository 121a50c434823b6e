package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class JsonFieldsTest {
    private static final String LEAF = "{\"name\": \"%s\", \"type\": \"long\"}";
    private static final String AT =
        "{\"type\": \"struct\", \"fields\": [" + LEAF.formatted("lat") + "]}";
    private static final String STRUCT = "{\"type\": \"struct\", \"fields\": ["
        + LEAF.formatted("id") + ", {\"name\": \"at\", \"type\": " + AT + "}"
        + ", {\"name\": \"list\", \"type\": {\"type\": \"array\", \"elementType\": " + AT + "}}"
        + ", {\"name\": \"deep\", \"type\": {\"type\": \"array\", \"elementType\": "
        + "{\"type\": \"array\", \"elementType\": " + AT + "}}}"
        + (", {\"name\": \"tags\", \"type\": {\"type\": \"array\", \"elementType\": "
           + "\"string\"}}]}");
    private static final String[] LEFT_OUT = {"a b", "at.c d", "list.x.y", "z.z"};

    private static final String[] KNOWN = {
        "{}",
        "{\"id\": 1}",
        " {\"id\": {\"no\": 1}}",
        "{\"at\": {\"lat\": 1}, \"list\": [{\"lat\": 2}, {}, null, 5], \"tags\": [\"a\"]}",
        "{\"deep\": [[{\"lat\": 1}], []], \"id\": 7}",
        "{\"at\": 7, \"list\": {\"lat\": 1}, \"tags\": [{\"c\": 1}]}",
        "{\"a b\": 1, \"at\": {\"c d\": {\"e\": 1}}, \"list\": [{\"x.y\": 1}], \"z.z\": 1}",
        "{\"later\": null, \"later2\": {\"a\": [null, {}], \"b\": {}}, \"later3\": [], \"id\": 1}",
        "[{\"new\": 1}]",
        "7",
        "",
        "no json",
        "{\"id\": 1",
    };

    private static final String[] NEW = {
        "{\"new\": 1}",
        "{'new': 'single'}",
        "{\"id\": 1, \"new\": false}",
        "{\"new\": {\"a\": [null, {\"b\": \"\"}]}}",
        "{\"ID\": 1}",
        "{\"at\": {\"lat\": 1, \"lon\": 2}}",
        "{\"list\": [{\"lat\": 1}, {\"lon\": 2}]}",
        "{\"deep\": [[], [{\"lon\": 2}]]}",
        "{\"later\": null, \"list\": [5, [], {}], \"tags\": [], \"new\": 1}",
        "{\"later\": {\"a\": {}}, \"new\": 1}",
        "{\"new\": 1} and more",
    };

    @Test
    void whatIsKnownOrHasNoTypeIsNotNew() {
        for (String text : KNOWN) {
            assertEquals(false, isNew(text.getBytes(StandardCharsets.UTF_8)), text);
        }
        assertEquals(false, isNew(null));
    }

    @Test
    void whatSparkCannotReadIsNothingNewAndNoError() {
        String deep = "{\"new\": "
            + "[".repeat(1_001) + "1"
            + "]".repeat(1_001) + "}";
        assertEquals(false, isNew(deep.getBytes(StandardCharsets.UTF_8)));
        String name = "{\""
            + "n".repeat(60_000) + "\": 1}";
        assertEquals(false, isNew(name.getBytes(StandardCharsets.UTF_8)));
    }

    @Test
    void aFieldThatTheStructHasNotIsNew() {
        for (String text : NEW) {
            assertEquals(true, isNew(text.getBytes(StandardCharsets.UTF_8)), text);
        }
    }

    @Test
    void aByteThatIsNoTextHidesNothing() {
        byte[] text = "{\"id\": \"?\", \"new\": 1}".getBytes(StandardCharsets.UTF_8);
        text[8] = (byte) 0xff;
        assertEquals(true, isNew(text));
    }

    private static boolean isNew(byte[] value) {
        return new JsonFields(STRUCT, LEFT_OUT).call(value);
    }
}
