package aggregator.connector;

import aggregator.connector.SchemaIds.Answer;
import aggregator.connector.SchemaIds.Question;
import aggregator.connector.SchemaIds.Side;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.UUID;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;

/**
 * Finds the schema ids of one record after the other, and puts those of the hub in their place.
 *
 * <p>A key or value in Confluent's wire format begins with a zero byte and the four bytes of an id.
 * Newer serializers leave the content as it is and say the schema in a header: a zero byte and an
 * id, or a one and the 16 bytes of a GUID, and behind it, for Protobuf, which message it is.
 * Deserializers look at the header first. Used by the task's thread alone.
 */
final class SchemaPatch {
    private static final int ID_BYTES = 5;
    private static final int GUID_BYTES = 17;
    private static final Side[] SIDES = Side.values();

    private final SchemaIds.Asked asked;
    private SchemaIds known = SchemaIds.NONE;
    /** The newest id in the content, and its answer, of each partition and side. */
    private final int[] lastIds;
    private final Answer[] lastAnswers;
    /** Of the record that was looked at last, by side: its answer, and the header that has it. */
    private final Answer[] answers = new Answer[SIDES.length];
    private final Header[] places = new Header[SIDES.length];

    SchemaPatch(int parts, SchemaIds.Asked asked) {
        this.asked = asked;
        lastIds = new int[parts * SIDES.length];
        lastAnswers = new Answer[parts * SIDES.length];
    }

    /** What is known from here on. */
    void know(SchemaIds ids) {
        if (ids != known) {
            known = ids;
            Arrays.fill(lastAnswers, null);
            asked.learn(ids);
        }
    }

    /**
     * Looks at a record of a partition. Null when all of its ids are known; else why it waits, and
     * the driver is asked.
     */
    String look(int part, String topic, byte[] key, byte[] value, Headers headers) {
        Header[] all = headers.toArray();
        String ofKey = look(part, topic, Side.KEY, key, all);
        String ofValue = look(part, topic, Side.VALUE, value, all);
        return ofKey != null ? ofKey : ofValue;
    }

    /** Why the record that was looked at is refused; null when it is not. */
    String refusal() {
        for (Answer answer : answers) {
            if (answer != null && answer.refusal() != null) {
                return answer.refusal();
            }
        }
        return null;
    }

    /** A key or value with the hub's id; in place where these bytes are not shared. */
    byte[] patched(Side side, byte[] content, boolean own) {
        Answer answer = answers[side.ordinal()];
        if (answer == null || places[side.ordinal()] != null) {
            return content;
        }
        byte[] patched = own ? content : content.clone();
        putInt(patched, (int) answer.schema());
        return patched;
    }

    /** The headers with what the hub calls these schemas; the same ones where nothing differs. */
    Headers patched(Headers headers) {
        if (places[0] == null && places[1] == null) {
            return headers;
        }
        Header[] all = headers.toArray();
        for (int i = 0; i < all.length; i++) {
            for (int side = 0; side < places.length; side++) {
                if (all[i] == places[side]) {
                    byte[] value = patched(all[i].value(), answers[side].schema());
                    all[i] = new RecordHeader(all[i].key(), value);
                }
            }
        }
        return new RecordHeaders(all);
    }

    private String look(int part, String topic, Side side, byte[] content, Header[] all) {
        int at = side.ordinal();
        answers[at] = null;
        Header header = last(all, side.header);
        places[at] = header;
        if (header != null) {
            Object schema = named(header.value());
            if (schema == null) {
                places[at] = null;
                return null;
            }
            answers[at] = known.answer(topic, side, schema);
            return waits(topic, side, schema, answers[at]);
        }
        if (!isFramed(content)) {
            return null;
        }
        int id = idOf(content);
        int slot = part * SIDES.length + at;
        Answer answer = lastAnswers[slot];
        if (answer == null || lastIds[slot] != id) {
            answer = known.answer(topic, side, id);
            String waits = waits(topic, side, id, answer);
            if (waits != null) {
                return waits;
            }
            lastAnswers[slot] = answer;
            lastIds[slot] = id;
        }
        answers[at] = answer;
        return null;
    }

    private String waits(String topic, Side side, Object schema, Answer answer) {
        if (answer != null && answer.isKnown()) {
            return null;
        }
        Question question = new Question(topic, side, schema);
        asked.add(question);
        String what = "schema " + question.named() + " of a " + side.text;
        return answer == null ? what + " is not known at the hub's registry yet"
                              : what + " waits: " + answer.waits();
    }

    /** The header that deserializers of Java read: of several, the last one. */
    private static Header last(Header[] all, String name) {
        for (int i = all.length - 1; i >= 0; i--) {
            if (all[i].key().equals(name)) {
                return all[i].value() == null ? null : all[i];
            }
        }
        return null;
    }

    /** An Integer or a UUID; null for what is neither. */
    private static Object named(byte[] header) {
        if (isFramed(header)) {
            return idOf(header);
        }
        if (header.length < GUID_BYTES || header[0] != 1) {
            return null;
        }
        ByteBuffer bytes = ByteBuffer.wrap(header, 1, GUID_BYTES - 1);
        return new UUID(bytes.getLong(), bytes.getLong());
    }

    /** A header's value with another id or GUID, and what followed it. */
    static byte[] patched(byte[] header, Object schema) {
        int had = header[0] == 0 ? ID_BYTES : GUID_BYTES;
        boolean isGuid = schema instanceof UUID;
        ByteBuffer bytes =
            ByteBuffer.allocate((isGuid ? GUID_BYTES : ID_BYTES) + header.length - had);
        if (schema instanceof UUID guid) {
            bytes.put((byte) 1);
            bytes.putLong(guid.getMostSignificantBits()).putLong(guid.getLeastSignificantBits());
        } else {
            bytes.put((byte) 0).putInt((int) schema);
        }
        return bytes.put(header, had, header.length - had).array();
    }

    /** Whether some content begins as the wire format does. */
    static boolean isFramed(byte[] content) {
        return content != null && content.length >= ID_BYTES && content[0] == 0;
    }

    static int idOf(byte[] content) {
        return (content[1] & 0xFF) << 24 | (content[2] & 0xFF) << 16 | (content[3] & 0xFF) << 8
            | content[4] & 0xFF;
    }

    private static void putInt(byte[] content, int id) {
        content[1] = (byte) (id >>> 24);
        content[2] = (byte) (id >>> 16);
        content[3] = (byte) (id >>> 8);
        content[4] = (byte) id;
    }
}
