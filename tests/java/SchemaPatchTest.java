package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import aggregator.connector.SchemaIds.Side;
import java.nio.ByteBuffer;
import java.util.UUID;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.junit.jupiter.api.Test;

class SchemaPatchTest {
    private static final UUID GUID = UUID.fromString("89791762-2336-4186-9674-299b90a802e2");
    private static final UUID OTHER = UUID.fromString("00000000-0000-0001-0000-000000000002");
    private static final SchemaIds IDS = ids(7);
    private static final String KEY = Side.KEY.header;
    private static final String VALUE = Side.VALUE.header;

    private final SchemaIds.Asked asked = new SchemaIds.Asked();
    private final SchemaPatch patch = new SchemaPatch(2, asked);

    private static SchemaIds ids(int one) {
        return new SchemaIds(Specs.json(
            "{'orders': {'key': {'1': {'id': 5}, '" + GUID
            + "': {'id': 8}}, 'value': {'1': {'id': " + one
            + "}, '2': {'refused': 'schema 2'}, '3': {'waits': 'it is away'}, '4': {'id': -2},"
            + " '" + GUID + "': {'guid': '" + OTHER + "'}}}}"));
    }

    private String look(byte[] key, byte[] value, Headers headers) {
        return patch.look(1, "orders", key, value, headers);
    }

    private static byte[] framed(int id, int... rest) {
        ByteBuffer bytes = ByteBuffer.allocate(5 + rest.length).put((byte) 0).putInt(id);
        for (int each : rest) {
            bytes.put((byte) each);
        }
        return bytes.array();
    }

    private static byte[] guid(UUID guid, int... rest) {
        ByteBuffer bytes = ByteBuffer.allocate(17 + rest.length).put((byte) 1);
        bytes.putLong(guid.getMostSignificantBits()).putLong(guid.getLeastSignificantBits());
        for (int each : rest) {
            bytes.put((byte) each);
        }
        return bytes.array();
    }

    private static RecordHeaders none() {
        return new RecordHeaders();
    }

    @Test
    void contentIsFramedByAZeroByteAndRoomForAnId() {
        assertTrue(SchemaPatch.isFramed(new byte[] {0, 0, 0, 0, 7}));
        assertFalse(SchemaPatch.isFramed(new byte[] {0, 0, 0, 7}));
        assertFalse(SchemaPatch.isFramed(new byte[] {1, 0, 0, 0, 7, 1}));
        assertFalse(SchemaPatch.isFramed(new byte[0]));
        assertFalse(SchemaPatch.isFramed(null));
        assertEquals(0x01F0_03FF, SchemaPatch.idOf(framed(0x01F0_03FF, 9)));
    }

    @Test
    void idsInKeyAndValueBecomeThoseOfTheHub() {
        patch.know(IDS);
        byte[] key = framed(1, 9);
        byte[] value = framed(4, 8, 7);
        Headers headers = none().add("own", new byte[] {1});
        assertNull(look(key, value, headers));
        assertNull(patch.refusal());
        byte[] copy = patch.patched(Side.KEY, key, false);
        assertArrayEquals(framed(5, 9), copy);
        // What may be somebody else's stays as it is.
        assertArrayEquals(framed(1, 9), key);
        assertSame(value, patch.patched(Side.VALUE, value, true));
        assertArrayEquals(framed(-2, 8, 7), value);
        assertSame(headers, patch.patched(headers));
    }

    @Test
    void eachReadOfARecordGivesAnArrayOfItsOwn() {
        // What is patched in place may be read again, from the same fetched bytes.
        byte[] fetched = framed(1, 9);
        ByteBuffer buffer = ByteBuffer.wrap(fetched);
        byte[] read = new ByteArrayDeserializer().deserialize("orders", none(), buffer);
        assertNotSame(fetched, read);
        assertArrayEquals(fetched, read);
    }

    @Test
    void theNewestAnswerIsKeptForItsPartitionAndIdAndNoLonger() {
        patch.know(IDS);
        for (int round = 0; round < 2; round++) {
            assertNull(look(null, framed(1), none()));
            assertArrayEquals(framed(7), patch.patched(Side.VALUE, framed(1), false));
            assertNull(look(null, framed(4), none()));
            assertArrayEquals(framed(-2), patch.patched(Side.VALUE, framed(4), false));
        }
        patch.know(ids(70));
        assertNull(look(null, framed(4), none()));
        assertNull(look(null, framed(1), none()));
        assertArrayEquals(framed(70), patch.patched(Side.VALUE, framed(1), false));
        // Nothing of one record is left for the next.
        byte[] plain = {1, 2};
        assertNull(look(null, plain, none()));
        assertSame(plain, patch.patched(Side.VALUE, plain, true));
    }

    @Test
    void whatIsRefusedSaysWhyAndWhatIsNotKnownIsAskedFor() {
        patch.know(IDS);
        assertNull(look(framed(1), framed(2), none()));
        assertEquals("schema 2", patch.refusal());
        assertEquals("schema 3 of a value waits: it is away", look(null, framed(3), none()));
        assertEquals(
            "schema 6 of a key is not known at the hub's registry yet",
            look(framed(6), framed(7), none()));
        assertEquals(3, asked.open().length);
    }

    @Test
    void aHeaderSpeaksForTheContentAndIsRewrittenInItsPlace() {
        patch.know(IDS);
        byte[] value = framed(2, 3);
        Headers headers = none()
                              .add(VALUE, guid(OTHER))
                              .add("own", new byte[] {1})
                              .add(VALUE, guid(GUID, 2, 0))
                              .add(KEY, framed(1))
                              .add("own", null);
        assertNull(look(new byte[] {4}, value, headers));
        assertNull(patch.refusal());
        assertSame(value, patch.patched(Side.VALUE, value, true));
        assertArrayEquals(framed(2, 3), value);
        Header[] found = patch.patched(headers).toArray();
        assertEquals(5, found.length);
        // Of several it is the last one that is read.
        assertArrayEquals(guid(OTHER), found[0].value());
        assertArrayEquals(guid(OTHER, 2, 0), found[2].value());
        assertArrayEquals(framed(5), found[3].value());
        assertEquals("own", found[4].key());
        assertArrayEquals(guid(GUID, 2, 0), headers.toArray()[2].value());
    }

    @Test
    void aHubWithoutGuidsGetsItsIdIntoTheHeader() {
        patch.know(IDS);
        Headers headers = none().add(KEY, guid(GUID, 0));
        assertNull(look(new byte[] {4}, null, headers));
        assertArrayEquals(framed(8, 0), patch.patched(headers).toArray()[0].value());
    }

    @Test
    void aHeaderThatIsNoneOfTheirsIsLeftAlone() {
        patch.know(IDS);
        byte[] value = {5, 5};
        Headers headers = none().add(VALUE, new byte[] {2, 1}).add(KEY, null);
        assertNull(look(framed(1), value, headers));
        assertSame(headers, patch.patched(headers));
        assertSame(value, patch.patched(Side.VALUE, value, true));
        assertArrayEquals(framed(5), patch.patched(Side.KEY, framed(1), true));
        assertNull(look(null, value, none().add(VALUE, new byte[0])));
    }
}
