package aggregator.connector;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.api.java.UDF1;

/**
 * Whether a JSON object has a field that a struct has not, with a value of some type. For a column
 * of Spark: far cheaper than to find out which types its fields have. Text that is no object has
 * none.
 */
public final class JsonFields implements UDF1<byte[], Boolean> {
    private static final JsonFactory FACTORY = JsonFactory.builder()
                                                   .build()
                                                   // As Spark reads JSON, and within the same
                                                   // limits: what it cannot read is nothing new.
                                                   .enable(JsonParser.Feature.ALLOW_SINGLE_QUOTES);

    private final String struct;
    private final String[] leftOut;
    private transient Known known;

    /** What is known of a place: its fields, or what its items are; nothing of a single value. */
    private static final class Known {
        private final Map<String, Known> fields = new HashMap<>();
        private boolean isStruct;
        private Known items;
    }

    /** `struct` is StructType.json of Spark, `leftOut` are further fields, as a.b. */
    public JsonFields(String struct, String[] leftOut) {
        this.struct = struct;
        this.leftOut = leftOut;
    }

    @Override
    public Boolean call(byte[] value) {
        if (value == null) {
            return Boolean.FALSE;
        }
        try (JsonParser parser = FACTORY.createParser(value)) {
            return isNew(parser);
        } catch (IOException malformed) {
            // As Spark does it, a byte that is no UTF-8 is another letter, and no error.
            try (
                JsonParser parser =
                    FACTORY.createParser(new String(value, StandardCharsets.UTF_8))) {
                return isNew(parser);
            } catch (IOException noJson) {
                return Boolean.FALSE;
            }
        }
    }

    private Boolean isNew(JsonParser parser) throws IOException {
        return parser.nextToken() == JsonToken.START_OBJECT && inObject(parser, known());
    }

    private static boolean inObject(JsonParser parser, Known at) throws IOException {
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            Known field = at.fields.get(parser.currentName());
            parser.nextToken();
            if (field == null ? hasType(parser) : inValue(parser, field)) {
                return true;
            }
        }
        return false;
    }

    private static boolean inValue(JsonParser parser, Known at) throws IOException {
        if (at.isStruct && parser.currentToken() == JsonToken.START_OBJECT) {
            return inObject(parser, at);
        }
        if (at.items != null && parser.currentToken() == JsonToken.START_ARRAY) {
            for (JsonToken it = parser.nextToken(); it != null && it != JsonToken.END_ARRAY;
                 it = parser.nextToken()) {
                if (inValue(parser, at.items)) {
                    return true;
                }
            }
            return false;
        }
        parser.skipChildren();
        return false;
    }

    /** Whether there is anything in a value but nulls; if not, all of it is read. */
    private static boolean hasType(JsonParser parser) throws IOException {
        int deep = 0;
        do {
            JsonToken it = parser.currentToken();
            if (it == null) {
                return false;
            }
            if (it.isStructStart()) {
                deep++;
            } else if (it.isStructEnd()) {
                deep--;
            } else if (it.isScalarValue() && it != JsonToken.VALUE_NULL) {
                return true;
            }
        } while (deep > 0 && parser.nextToken() != null);
        return false;
    }

    private Known known() {
        if (known == null) {
            Known root = read(Json.parse(struct));
            for (String path : leftOut) {
                leave(root, path);
            }
            known = root;
        }
        return known;
    }

    private static Known read(JsonNode type) {
        Known here = new Known();
        String kind = type.path("type").asText();
        if (kind.equals("struct")) {
            here.isStruct = true;
            for (JsonNode field : type.path("fields")) {
                here.fields.put(field.path("name").asText(), read(field.path("type")));
            }
        } else if (kind.equals("array")) {
            here.items = read(type.path("elementType"));
        }
        return here;
    }

    /** A name may have a dot in it, so the longest that is known goes first. */
    private static void leave(Known root, String path) {
        Known at = root;
        String rest = path;
        int dot = rest.indexOf('.');
        while (dot > 0 && at.fields.containsKey(rest.substring(0, dot))) {
            at = at.fields.get(rest.substring(0, dot));
            while (at.items != null) {
                at = at.items;
            }
            rest = rest.substring(dot + 1);
            dot = rest.indexOf('.');
        }
        at.fields.putIfAbsent(rest, new Known());
    }
}
