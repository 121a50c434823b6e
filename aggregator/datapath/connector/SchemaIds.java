package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.UUID;

/**
 * What the schema ids in keys, values and their headers are at the hub, as far as the driver has
 * reported. An id is an Integer and of its own cluster's registry; a GUID is a UUID.
 */
final class SchemaIds {
    static final SchemaIds NONE = new SchemaIds(null);

    /** The place of an id: in a key or a value, or in a header for one. */
    enum Side {
        KEY("key", "__key_schema_id"),
        VALUE("value", "__value_schema_id");

        final String text;
        /** Where Confluent's newer serializers write it. */
        final String header;

        Side(String text, String header) {
            this.text = text;
            this.header = header;
        }
    }

    /** An id or a GUID at the hub; or why there is none; or why it is not known yet. */
    record Answer(Object schema, String refusal, String waits) {
        private static Answer of(JsonNode json) {
            if (json.has("id")) {
                return new Answer(json.get("id").asInt(), null, null);
            }
            if (json.has("guid")) {
                return new Answer(UUID.fromString(json.get("guid").asText()), null, null);
            }
            String waits = json.has("waits") ? json.get("waits").asText() : null;
            return new Answer(null, json.path("refused").asText(null), waits);
        }

        /** Whether a record may continue with it. */
        boolean isKnown() {
            return waits == null;
        }
    }

    /** One question to the driver: what is this of a topic's keys or values? */
    record Question(String topic, Side side, Object schema) implements Comparable<Question> {
        /** The id or the GUID in the form for the driver. */
        String named() {
            return schema instanceof Integer id ? Integer.toUnsignedString(id) : schema.toString();
        }

        @Override
        public int compareTo(Question other) {
            return toString().compareTo(other.toString());
        }
    }

    private final List<Map<String, Map<Object, Answer>>> bySide = new ArrayList<>();

    /**
     * Out of {source topic: {"key" or "value": {id or GUID: {"id": 5}, {"guid": text}, {"refused":
     * why} or {"waits": why}}}}.
     */
    SchemaIds(JsonNode json) {
        for (Side side : Side.values()) {
            Map<String, Map<Object, Answer>> byTopic = new HashMap<>();
            if (json != null) {
                json.properties().forEach(topic -> {
                    Map<Object, Answer> answers = new HashMap<>();
                    topic.getValue().path(side.text).properties().forEach(
                        e -> answers.put(named(e.getKey()), Answer.of(e.getValue())));
                    byTopic.put(topic.getKey(), answers);
                });
            }
            bySide.add(byTopic);
        }
    }

    /** What is known of an id; null when nothing is yet. */
    Answer answer(String topic, Side side, Object schema) {
        Map<Object, Answer> answers = bySide.get(side.ordinal()).get(topic);
        return answers == null ? null : answers.get(schema);
    }

    private static Object named(String text) {
        return text.indexOf('-') < 0 ? (Object) Integer.parseUnsignedInt(text)
                                     : UUID.fromString(text);
    }

    /** What the records of a task ask for, kept until all of it is answered. */
    static final class Asked {
        private final TreeSet<Question> open = new TreeSet<>();

        synchronized void add(Question question) {
            open.add(question);
        }

        synchronized void learn(SchemaIds ids) {
            open.removeIf(it -> {
                Answer answer = ids.answer(it.topic(), it.side(), it.schema());
                return answer != null && answer.isKnown();
            });
        }

        synchronized Question[] open() {
            return open.toArray(new Question[0]);
        }
    }
}
