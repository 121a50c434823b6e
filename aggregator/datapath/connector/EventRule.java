package aggregator.connector;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/**
 * Which bytes of a hub topic's records name their event, and for how long it is remembered.
 *
 * @param by "key", "header:NAME" or "value:$.NAME.NAME"
 */
record EventRule(String by, long windowMs) implements Serializable {
    private static final String HEADER = "header:";
    private static final String VALUE = "value:$.";

    /** Null where nothing says that an event is to come once. */
    static EventRule of(JsonNode json) {
        return json.isObject()
            ? new EventRule(json.get("by").asText(), json.get("window_ms").asLong())
            : null;
    }

    /** The id of a record's event; null for one that has none, or an empty one. */
    byte[] id(byte[] key, byte[] value, Headers headers) {
        byte[] found = null;
        if (by.startsWith(HEADER)) {
            Header last = headers.lastHeader(by.substring(HEADER.length()));
            found = last == null ? null : last.value();
        } else if (by.startsWith(VALUE)) {
            found = value == null ? null : inside(value);
        } else {
            found = key;
        }
        return found == null || found.length == 0 ? null : found;
    }

    /** The text, number or truth value at the path; no more is parsed than it takes to find it. */
    private byte[] inside(byte[] value) {
        String[] names = by.substring(VALUE.length()).split("\\.");
        try (JsonParser json = Json.FACTORY.createParser(value)) {
            if (json.nextToken() != JsonToken.START_OBJECT) {
                return null;
            }
            int depth = 0;
            while (json.nextToken() == JsonToken.FIELD_NAME) {
                boolean wanted = names[depth].equals(json.currentName());
                JsonToken token = json.nextToken();
                if (!wanted) {
                    json.skipChildren();
                } else if (depth < names.length - 1) {
                    if (token != JsonToken.START_OBJECT) {
                        return null;
                    }
                    depth++;
                } else {
                    boolean plain = token.isScalarValue() && token != JsonToken.VALUE_NULL;
                    return plain ? json.getText().getBytes(StandardCharsets.UTF_8) : null;
                }
            }
            return null;
        } catch (IOException noJson) {
            return null;
        }
    }
}
