package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class JsonEndsTest {
    @Test
    void whatIsBehindAnObjectIsSeenAndNotWhatIsInItsTexts() {
        String[] whole = {
            "",
            "{}",
            "{\"a\": 1} \t\r\n",
            "{\"a\": [{\"b\": {}}, [], \"}x\"], \"c\\\"}\": '\"}'}",
            "{\"a\": \"\\\\\"}",
            "{\"a\": 1",
            "{\"a\": \"1}",
        };
        for (String text : whole) {
            assertEquals(null, call(text), text);
        }
        String[] more = {
            "{\"a\": 1} trailing",
            "{\"a\": 5}{\"a\": 6}",
            "{}}",
            "{\"a\": \"\\\\\"}\"}",
            "{\"a\": []},",
            "{}\u0000",
        };
        for (String text : more) {
            assertEquals("not JSON", call(text), text);
        }
        assertEquals(null, new JsonEnds().call(null));
    }

    @Test
    void whatIsNestedDeeperThanReadersGoIsNoObject() {
        String deep = "[".repeat(JsonEnds.MOST_DEEP - 1);
        assertEquals(null, call("{\"a\":" + deep));
        assertEquals("nested in more than 100 levels", call("{\"a\":" + deep + "["));
    }

    private static String call(String text) {
        return new JsonEnds().call(text.getBytes(StandardCharsets.UTF_8));
    }
}
