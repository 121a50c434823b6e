package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF3;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * What a payload says by the schema that it names, in the columns of a table, and what is wrong.
 * For a column of Spark: one for all schemas of a topic, so a plan is as large for a thousand of
 * them as for one.
 */
public final class AvroRows implements UDF3<String, String, byte[], Row> {
    private final String known;
    private transient JsonNode names;
    private transient StructType struct;
    private transient Map<String, AvroValues.Part> parts;

    /**
     * `known` is JSON: `struct` as Spark has it, `texts` of schemas, `avro` by `origin/name` with
     * the place of its text and how a reader calls it, `failed` by the same with the reason, and
     * `other`, which is the reason of all else.
     */
    public AvroRows(String known) {
        this.known = known;
    }

    @Override
    public Row call(String origin, String name, byte[] payload) {
        if (parts == null) {
            names = Json.parse(known);
            struct = (StructType) DataType.fromJson(names.path("struct").toString());
            parts = new HashMap<>();
        }
        String key = (origin == null ? "" : origin) + "/" + name;
        JsonNode schema = names.path("avro").path(key);
        if (schema.isMissingNode()) {
            JsonNode failed = names.path("failed").path(key);
            return RowFactory.create(null, failed.asText(names.path("other").asText()));
        }
        AvroInput in = new AvroInput(payload);
        AvroValues.Notes notes = new AvroValues.Notes();
        String reason;
        try {
            Object value = part(schema.path("text").asInt()).read(in, notes);
            if (in.left() == 0) {
                return RowFactory.create(value, notes.first);
            }
            reason = in.left() + " bytes are left over";
        } catch (AvroInput.Misread misread) {
            reason = misread.getMessage();
        } catch (StackOverflowError deep) {
            reason = AvroInput.TOO_DEEP;
        }
        String what = "is not what schema " + schema.path("called").asText() + " says: ";
        return RowFactory.create(null, what + reason);
    }

    private AvroValues.Part part(int at) {
        String text = names.path("texts").path(at).asText();
        AvroValues.Part found = parts.get(text);
        if (found == null) {
            found = AvroValues.of(AvroTypes.parsed(text), struct);
            parts.put(text, found);
        }
        return found;
    }
}
