package aggregator.connector;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The columns that values of an Avro schema become. Only types that all readers of Delta have: a
 * time of day and a local time are text, as is a record within itself, and what is nested too deep.
 */
public final class AvroTypes {
    private static final int MOST_DIGITS = DecimalType.MAX_PRECISION();
    private static final int MOST_DEEP = 20;
    /** A record that is named at many places of others is as many columns; then it is text. */
    private static final int MOST_FIELDS = 5_000;

    private final Set<String> around = new HashSet<>();
    private int fields;

    private AvroTypes() {}

    /** The struct, as JSON of Spark; an unchecked exception with the reason for no such schema. */
    public static String structOf(String text) {
        Schema schema = parsed(text);
        DataType found = new AvroTypes().typeOf(schema, 0);
        return (isStruct(schema) ? (StructType) found : new StructType().add("value", found))
            .json();
    }

    /** A schema whatever its names and defaults are: what has been written by it can be read. */
    static Schema parsed(String text) {
        return new Schema.Parser(NameValidator.NO_VALIDATION)
            .setValidateDefaults(false)
            .parse(text);
    }

    /** Whether a value is fields: of a record, which may be null, or of a union of several. */
    static boolean isStruct(Schema schema) {
        List<Schema> members = members(schema);
        Schema only = members.size() == 1 ? members.get(0) : schema;
        return only.getType() == Schema.Type.RECORD || members.size() > 1 && !isNumber(schema);
    }

    /** What a union is of, but null; nothing for any other schema. */
    static List<Schema> members(Schema schema) {
        List<Schema> found = new ArrayList<>();
        if (schema.getType() == Schema.Type.UNION) {
            for (Schema it : schema.getTypes()) {
                if (it.getType() != Schema.Type.NULL) {
                    found.add(it);
                }
            }
        }
        return found;
    }

    /** The column of a branch of a union of several, as Spark names it. */
    static String member(Schema branch, Schema union) {
        String name = shortName(branch);
        for (Schema it : members(union)) {
            if (it != branch && shortName(it).equals(name)) {
                return "member_" + branch.getFullName().toLowerCase(Locale.ROOT).replace('.', '_');
            }
        }
        return "member_" + name;
    }

    /** Whether a union is of int and long, or of float and double: then it is one column. */
    static boolean isNumber(Schema union) {
        Set<DataType> kinds = new HashSet<>();
        for (Schema it : members(union)) {
            DataType kind = single(it);
            boolean isPlain = kind == DataTypes.LongType || kind == DataTypes.DoubleType;
            kinds.add(isPlain && it.getLogicalType() == null ? kind : DataTypes.NullType);
        }
        return kinds.size() == 1 && !kinds.contains(DataTypes.NullType);
    }

    static String logical(Schema schema) {
        LogicalType found = schema.getLogicalType();
        return found == null ? "" : found.getName();
    }

    private static String shortName(Schema branch) {
        return branch.getName().toLowerCase(Locale.ROOT);
    }

    private DataType typeOf(Schema schema, int deep) {
        if (deep > MOST_DEEP && isNested(schema)) {
            return DataTypes.StringType;
        }
        switch (schema.getType()) {
            case RECORD:
                return record(schema, deep);
            case UNION:
                return union(schema, deep);
            case ARRAY:
                return DataTypes.createArrayType(typeOf(schema.getElementType(), deep + 1));
            case MAP:
                return DataTypes.createMapType(
                    DataTypes.StringType, typeOf(schema.getValueType(), deep + 1));
            default:
                return single(schema);
        }
    }

    private static boolean isNested(Schema schema) {
        switch (schema.getType()) {
            case RECORD:
            case ARRAY:
            case MAP:
                return true;
            case UNION:
                return members(schema).size() > 1 && !isNumber(schema);
            default:
                return false;
        }
    }

    private DataType record(Schema schema, int deep) {
        fields += schema.getFields().size();
        if (deep > 0 && fields > MOST_FIELDS || !around.add(schema.getFullName())) {
            return DataTypes.StringType;
        }
        List<StructField> found = new ArrayList<>();
        for (Schema.Field it : schema.getFields()) {
            found.add(field(it.name(), typeOf(it.schema(), deep + 1)));
        }
        around.remove(schema.getFullName());
        return DataTypes.createStructType(found);
    }

    private DataType union(Schema schema, int deep) {
        List<Schema> members = members(schema);
        if (members.size() == 1 || isNumber(schema)) {
            return typeOf(members.get(0), deep);
        }
        List<StructField> found = new ArrayList<>();
        for (Schema it : members) {
            found.add(field(member(it, schema), typeOf(it, deep + 1)));
        }
        return found.isEmpty() ? DataTypes.NullType : DataTypes.createStructType(found);
    }

    private static DataType single(Schema schema) {
        String logical = logical(schema);
        switch (schema.getType()) {
            case NULL:
                return DataTypes.NullType;
            case BOOLEAN:
                return DataTypes.BooleanType;
            case INT:
                return logical.equals("date")       ? DataTypes.DateType
                    : logical.equals("time-millis") ? DataTypes.StringType
                                                    : DataTypes.LongType;
            case LONG:
                return logical.equals("timestamp-millis") || logical.equals("timestamp-micros")
                    ? DataTypes.TimestampType
                    : logical.equals("time-micros") || logical.startsWith("local-timestamp-")
                    ? DataTypes.StringType
                    : DataTypes.LongType;
            case FLOAT:
            case DOUBLE:
                return DataTypes.DoubleType;
            case STRING:
            case ENUM:
                return DataTypes.StringType;
            case BYTES:
            case FIXED:
                return ofBytes(schema, logical);
            default:
                return DataTypes.NullType;
        }
    }

    private static DataType ofBytes(Schema schema, String logical) {
        if (schema.getLogicalType() instanceof LogicalTypes.Decimal) {
            LogicalTypes.Decimal it = (LogicalTypes.Decimal) schema.getLogicalType();
            return it.getPrecision() > MOST_DIGITS
                ? DataTypes.StringType
                : DataTypes.createDecimalType(it.getPrecision(), it.getScale());
        }
        return logical.equals("uuid") ? DataTypes.StringType : DataTypes.BinaryType;
    }

    private static StructField field(String name, DataType of) {
        return DataTypes.createStructField(name, of, true);
    }
}
