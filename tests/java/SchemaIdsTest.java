package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import aggregator.connector.SchemaIds.Answer;
import aggregator.connector.SchemaIds.Question;
import aggregator.connector.SchemaIds.Side;
import java.util.UUID;
import org.junit.jupiter.api.Test;

class SchemaIdsTest {
    private static final UUID GUID = UUID.fromString("89791762-2336-4186-9674-299b90a802e2");
    private static final SchemaIds IDS = new SchemaIds(Specs.json(
        "{'orders': {'key': {'1': {'id': 5}}, 'value': {'1': {'id': 6}, '2': {'refused': 'schema "
        + "2'},"
        + " '3': {'waits': 'it is away'}, '4294967295': {'id': 9}, '" + GUID + "': {'guid': '"
        + GUID + "'}}}, 'other': {}}"));

    @Test
    void anIdIsThatOfItsTopicAndSide() {
        assertEquals(new Answer(5, null, null), IDS.answer("orders", Side.KEY, 1));
        assertEquals(new Answer(6, null, null), IDS.answer("orders", Side.VALUE, 1));
        assertEquals(new Answer(GUID, null, null), IDS.answer("orders", Side.VALUE, GUID));
        assertEquals(9, IDS.answer("orders", Side.VALUE, -1).schema());
        assertNull(IDS.answer("orders", Side.KEY, GUID));
        assertNull(IDS.answer("other", Side.VALUE, 1));
        assertNull(IDS.answer("no", Side.VALUE, 1));
        assertNull(SchemaIds.NONE.answer("orders", Side.KEY, 1));
    }

    @Test
    void whatHasNoIdAtTheHubSaysWhy() {
        Answer refused = IDS.answer("orders", Side.VALUE, 2);
        assertEquals("schema 2", refused.refusal());
        assertTrue(refused.isKnown());
        Answer waits = IDS.answer("orders", Side.VALUE, 3);
        assertEquals("it is away", waits.waits());
        assertFalse(waits.isKnown());
    }

    @Test
    void aQuestionIsOpenUntilItWasAnswered() {
        SchemaIds.Asked asked = new SchemaIds.Asked();
        Question known = new Question("orders", Side.KEY, 1);
        Question waits = new Question("orders", Side.VALUE, 3);
        Question unknown = new Question("orders", Side.KEY, -2);
        asked.add(unknown);
        asked.add(waits);
        asked.add(known);
        asked.add(known);
        assertEquals(3, asked.open().length);
        asked.learn(IDS);
        assertArrayEquals(new Question[] {unknown, waits}, asked.open());
        assertEquals("4294967294", unknown.named());
        assertEquals(GUID.toString(), new Question("orders", Side.KEY, GUID).named());
    }
}
