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
            assertEquals(true, call(text), text);
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
            assertEquals(false, call(text), text);
        }
        assertEquals(true, new JsonEnds().call(null));
    }

    private static boolean call(String text) {
        return new JsonEnds().call(text.getBytes(StandardCharsets.UTF_8));
    }
}
