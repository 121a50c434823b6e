package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import aggregator.connector.SchemaIds.Answer;
import aggregator.connector.SchemaIds.Question;
import org.junit.jupiter.api.Test;

class SchemaIdsTest {
    private static final SchemaIds IDS = new SchemaIds(Specs.json(
        "{'orders': {'key': {'1': 5}, 'value': {'1': 6, '2': 'schema 2'}}, 'other': {}}"));

    @Test
    void anIdIsThatOfItsTopicAndSide() {
        assertEquals(new Answer(5, null), IDS.answer(new Question("orders", SchemaIds.KEY, 1)));
        assertEquals(new Answer(6, null), IDS.answer(new Question("orders", SchemaIds.VALUE, 1)));
        assertNull(IDS.answer(new Question("other", SchemaIds.VALUE, 1)));
        assertNull(SchemaIds.NONE.answer(new Question("orders", SchemaIds.KEY, 1)));
    }

    @Test
    void whatHasNoIdAtTheHubSaysWhy() {
        Answer answer = IDS.answer(new Question("orders", SchemaIds.VALUE, 2));
        assertEquals("schema 2", answer.refusal());
    }

    @Test
    void contentIsFramedByAZeroByteAndRoomForAnId() {
        assertTrue(SchemaIds.isFramed(new byte[] {0, 0, 0, 0, 7}));
        assertFalse(SchemaIds.isFramed(new byte[] {0, 0, 0, 7}));
        assertFalse(SchemaIds.isFramed(new byte[] {1, 0, 0, 0, 7, 1}));
        assertFalse(SchemaIds.isFramed(new byte[0]));
        assertFalse(SchemaIds.isFramed(null));
    }

    @Test
    void anotherIdIsPutIntoACopyAndAllElseStays() {
        byte[] content = {0, 1, 2, 3, 4, 9, 8};
        byte[] copy = SchemaIds.with(content, 0x7F000001);
        assertEquals(0x01020304, SchemaIds.idOf(content));
        assertArrayEquals(new byte[] {0, 0x7F, 0, 0, 1, 9, 8}, copy);
    }

    @Test
    void aQuestionIsOpenUntilItWasAnswered() {
        SchemaIds.Asked asked = new SchemaIds.Asked();
        Question known = new Question("orders", SchemaIds.KEY, 1);
        Question unknown = new Question("orders", SchemaIds.KEY, 3);
        asked.add(unknown);
        asked.add(known);
        asked.add(known);
        assertArrayEquals(new Question[] {known, unknown}, asked.open());
        asked.told(IDS);
        assertArrayEquals(new Question[] {unknown}, asked.open());
    }
}
