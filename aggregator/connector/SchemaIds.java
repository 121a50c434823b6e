package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;

/**
 * What the schema ids in keys and values are at the hub, as far as the driver has told.
 *
 * <p>A key or value in Confluent's wire format begins with a zero byte and the four bytes of an id,
 * which is of its own cluster's registry. The hub's has another one for the same schema.
 */
final class SchemaIds {
    static final SchemaIds NONE = new SchemaIds(null);

    static final String KEY = "key";
    static final String VALUE = "value";

    private static final int HEAD = 5;

    /** An id at the hub; or why there is none. */
    record Answer(int id, String refusal) {}

    /** One question to the driver: what is this id of a topic's keys or values? */
    record Question(String topic, String side, int id) implements Comparable<Question> {
        @Override
        public int compareTo(Question other) {
            return toString().compareTo(other.toString());
        }
    }

    private final Map<Question, Answer> answers = new HashMap<>();

    /** Out of {source topic: {"key" or "value": {id: id at the hub, or why there is none}}}. */
    SchemaIds(JsonNode json) {
        if (json == null) {
            return;
        }
        json.properties().forEach(
            topic
            -> topic.getValue().properties().forEach(
                side
                -> side.getValue().properties().forEach(
                    id
                    -> answers.put(
                        new Question(topic.getKey(), side.getKey(), Integer.parseInt(id.getKey())),
                        id.getValue().isTextual() ? new Answer(-1, id.getValue().asText())
                                                  : new Answer(id.getValue().asInt(), null)))));
    }

    /** What was told of an id; null when nothing was yet. */
    Answer answer(Question question) {
        return answers.get(question);
    }

    /** Whether some content begins as the wire format does. */
    static boolean isFramed(byte[] content) {
        return content != null && content.length >= HEAD && content[0] == 0;
    }

    static int idOf(byte[] content) {
        return ByteBuffer.wrap(content, 1, 4).getInt();
    }

    /** The same content with another id; the given one stays as it is. */
    static byte[] with(byte[] content, int id) {
        byte[] copy = content.clone();
        ByteBuffer.wrap(copy, 1, 4).putInt(id);
        return copy;
    }

    /** What the records of a task want to know, kept until all of it was told. */
    static final class Asked {
        private final TreeSet<Question> open = new TreeSet<>();

        synchronized void add(Question question) {
            open.add(question);
        }

        synchronized void told(SchemaIds ids) {
            open.removeIf(question -> ids.answer(question) != null);
        }

        synchronized Question[] open() {
            return open.toArray(new Question[0]);
        }
    }
}
