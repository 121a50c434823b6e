package aggregator.connector;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/**
 * Reads values of an Avro schema into the columns that a table has: fields by their names. What a
 * column cannot hold is null there, and noted.
 */
final class AvroValues {
    private static final String MISFIT = "a field is of another type than its column";
    private static final String NO_TIME = "a time of day is outside of a day";
    private static final String NO_YEAR = "a date or a time is outside of the years 1 to 9999";
    private static final long FIRST_DAY = LocalDate.of(1, 1, 1).toEpochDay();
    private static final long LAST_DAY = LocalDate.of(9999, 12, 31).toEpochDay();
    private static final long DAY_SECONDS = 86_400;
    private static final DateTimeFormatter MILLIS = DateTimeFormatter.ofPattern("HH:mm:ss.SSS");
    private static final DateTimeFormatter MICROS = DateTimeFormatter.ofPattern("HH:mm:ss.SSSSSS");

    /** What is noted while one record is read. */
    static final class Notes {
        String first;

        Object note(String problem) {
            first = first == null ? problem : first;
            return null;
        }
    }

    /** Reads the value at one place of a schema. */
    interface Part {
        Object read(AvroInput in, Notes notes);
    }

    private AvroValues() {}

    /** What reads a whole value into a struct; a schema of no record has its column `value`. */
    static Part of(Schema schema, StructType struct) {
        if (AvroTypes.isStruct(schema)) {
            return part(schema, struct);
        }
        int at = indexOf(struct, "value");
        Part only = part(schema, at < 0 ? null : struct.apply(at).dataType());
        return (in, notes) -> {
            Object[] row = new Object[struct.length()];
            Object found = only.read(in, notes);
            if (at >= 0) {
                row[at] = found;
            }
            return RowFactory.create(row);
        };
    }

    private static Part part(Schema schema, DataType target) {
        if (target == null || schema.getType() == Schema.Type.NULL) {
            return skip(schema);
        }
        if (schema.getType() == Schema.Type.UNION) {
            return union(schema, target);
        }
        Part found = exact(schema, target);
        if (found != null) {
            return found;
        }
        // What was one branch of a union in other versions has its place there.
        int at = target instanceof StructType
            ? indexOf((StructType) target, AvroTypes.member(schema, schema))
            : -1;
        return at >= 0 ? within((StructType) target, at, schema) : misfit(schema);
    }

    private static Part exact(Schema schema, DataType target) {
        boolean isText = target == DataTypes.StringType;
        switch (schema.getType()) {
            case RECORD:
                return isText ? (in, notes)
                                    -> AvroText.read(schema, in)
                : target instanceof StructType && shares(schema, (StructType) target)
                    ? record(schema, (StructType) target)
                    : null;
            case ARRAY:
                return isText ? (in, notes)
                                    -> AvroText.read(schema, in)
                : target instanceof ArrayType
                    ? array(schema.getElementType(), ((ArrayType) target).elementType())
                    : null;
            case MAP:
                return isText ? (in, notes)
                                    -> AvroText.read(schema, in)
                : target instanceof MapType && ((MapType) target).keyType() == DataTypes.StringType
                    ? map(schema.getValueType(), ((MapType) target).valueType())
                    : null;
            case BOOLEAN:
                return target == DataTypes.BooleanType ? (in, notes) -> in.bool() : null;
            case INT:
            case LONG:
                return whole(schema, target);
            case FLOAT:
                return target == DataTypes.DoubleType ? (in, notes) -> (double) in.real() : null;
            case DOUBLE:
                return target == DataTypes.DoubleType ? (in, notes) -> in.wide() : null;
            case STRING:
                return isText ? (in, notes) -> in.text() : null;
            case ENUM:
                return isText ? (in, notes) -> AvroText.symbol(schema, in) : null;
            default:
                return bytes(schema, target);
        }
    }

    private static boolean shares(Schema schema, StructType target) {
        for (Schema.Field it : schema.getFields()) {
            if (indexOf(target, it.name()) >= 0) {
                return true;
            }
        }
        return indexOf(target, AvroTypes.member(schema, schema)) < 0;
    }

    private static Part record(Schema schema, StructType target) {
        int count = schema.getFields().size();
        Part[] parts = new Part[count];
        int[] places = new int[count];
        for (int i = 0; i < count; i++) {
            Schema.Field it = schema.getFields().get(i);
            places[i] = indexOf(target, it.name());
            parts[i] = part(it.schema(), places[i] < 0 ? null : target.apply(places[i]).dataType());
        }
        int width = target.length();
        return (in, notes) -> {
            Object[] row = new Object[width];
            for (int i = 0; i < count; i++) {
                Object found = parts[i].read(in, notes);
                if (places[i] >= 0) {
                    row[places[i]] = found;
                }
            }
            return RowFactory.create(row);
        };
    }

    private static Part union(Schema schema, DataType target) {
        List<Schema> branches = schema.getTypes();
        boolean isSeveral = AvroTypes.members(schema).size() > 1;
        boolean hasMembers = false;
        Map<Schema, Integer> places = new HashMap<>();
        if (isSeveral && target instanceof StructType) {
            for (Schema it : AvroTypes.members(schema)) {
                places.put(it, indexOf((StructType) target, AvroTypes.member(it, schema)));
                hasMembers |= places.get(it) >= 0;
            }
        }
        Part[] parts = new Part[branches.size()];
        for (int i = 0; i < parts.length; i++) {
            Schema it = branches.get(i);
            int at = places.getOrDefault(it, -1);
            if (at >= 0) {
                parts[i] = within((StructType) target, at, it);
            } else if (hasMembers) {
                // A column that the table could not take, as one without fields.
                parts[i] = skip(it);
            } else {
                parts[i] = part(it, target);
            }
        }
        return (in, notes) -> parts[place(branches.size(), in)].read(in, notes);
    }

    private static int place(int branches, AvroInput in) {
        int at = in.whole();
        if (at < 0 || at >= branches) {
            throw new AvroInput.Misread("a union has no such branch");
        }
        return at;
    }

    private static Part within(StructType target, int at, Schema schema) {
        Part only = part(schema, target.apply(at).dataType());
        int width = target.length();
        return (in, notes) -> {
            Object[] row = new Object[width];
            row[at] = only.read(in, notes);
            return RowFactory.create(row);
        };
    }

    private static Part array(Schema of, DataType target) {
        Part item = part(of, target);
        return (in, notes) -> {
            List<Object> found = new ArrayList<>();
            for (long count = in.block(); count > 0; count = in.block()) {
                for (; count > 0; count--) {
                    int before = in.left();
                    found.add(item.read(in, notes));
                    in.counted(before);
                }
            }
            return found.toArray();
        };
    }

    private static Part map(Schema of, DataType target) {
        Part value = part(of, target);
        return (in, notes) -> {
            Map<Object, Object> found = new LinkedHashMap<>();
            for (long count = in.block(); count > 0; count = in.block()) {
                for (; count > 0; count--) {
                    String key = in.text();
                    found.put(key, value.read(in, notes));
                }
            }
            return found;
        };
    }

    private static Part whole(Schema schema, DataType target) {
        boolean isInt = schema.getType() == Schema.Type.INT;
        String logical = AvroTypes.logical(schema);
        if (target == DataTypes.LongType) {
            return isInt ? (in, notes) -> (long) in.whole() : (in, notes) -> in.big();
        }
        if (target == DataTypes.DateType && logical.equals("date")) {
            return (in, notes) -> {
                long day = in.whole();
                return isYear(day) ? LocalDate.ofEpochDay(day) : notes.note(NO_YEAR);
            };
        }
        if (target == DataTypes.DoubleType && isInt && logical.isEmpty()) {
            return (in, notes) -> (double) in.whole();
        }
        if (target instanceof DecimalType && logical.isEmpty()) {
            Part number = isInt ? (in, notes) -> (long) in.whole() : (in, notes) -> in.big();
            return (in, notes)
                       -> decimal(BigDecimal.valueOf((Long) number.read(in, notes)), target, notes);
        }
        if (target == DataTypes.StringType && logical.startsWith("time-")) {
            return isInt ? (in, notes)
                               -> clock(in.whole(), 1_000_000L, MILLIS, notes)
                         : (in, notes) -> clock(in.big(), 1_000L, MICROS, notes);
        }
        long unit = logical.endsWith("-millis") ? 1_000
            : logical.endsWith("-micros")       ? 1_000_000
                                                : 1_000_000_000;
        if (target == DataTypes.TimestampType && logical.startsWith("timestamp-")) {
            return (in, notes) -> micros(in.big(), unit, notes);
        }
        if (!logical.startsWith("local-timestamp-")) {
            return null;
        }
        if (target == DataTypes.StringType) {
            return (in, notes) -> {
                Object found = moment(in.big(), unit, notes);
                return found == null ? null : local((Instant) found).toString();
            };
        }
        // So are columns of tables that were made before these were text.
        return target != DataTypes.TimestampNTZType ? null : (in, notes) -> {
            Object found = micros(in.big(), unit, notes);
            return found == null ? null : local((Instant) found);
        };
    }

    private static LocalDateTime local(Instant at) {
        return LocalDateTime.ofInstant(at, ZoneOffset.UTC);
    }

    private static boolean isYear(long day) {
        return day >= FIRST_DAY && day <= LAST_DAY;
    }

    private static Object moment(long at, long unit, Notes notes) {
        long second = Math.floorDiv(at, unit);
        return isYear(Math.floorDiv(second, DAY_SECONDS))
            ? Instant.ofEpochSecond(second, Math.floorMod(at, unit) * (1_000_000_000L / unit))
            : notes.note(NO_YEAR);
    }

    /** A moment for a column, which has microseconds. */
    private static Object micros(long at, long unit, Notes notes) {
        boolean isWhole = unit <= 1_000_000 || at % 1_000 == 0;
        return isWhole ? moment(at, unit, notes) : notes.note(MISFIT);
    }

    private static Object clock(long at, long nanos, DateTimeFormatter as, Notes notes) {
        return at < 0 || at >= DAY_SECONDS * (1_000_000_000L / nanos)
            ? notes.note(NO_TIME)
            : LocalTime.ofNanoOfDay(at * nanos).format(as);
    }

    private static Part bytes(Schema schema, DataType target) {
        boolean isFixed = schema.getType() == Schema.Type.FIXED;
        int length = isFixed ? schema.getFixedSize() : 0;
        Part raw = isFixed ? (in, notes) -> in.fixed(in.length(length)) : (in, notes) -> in.bytes();
        if (target == DataTypes.BinaryType) {
            return raw;
        }
        if (schema.getLogicalType() instanceof LogicalTypes.Decimal) {
            int scale = ((LogicalTypes.Decimal) schema.getLogicalType()).getScale();
            if (target == DataTypes.StringType) {
                return (in, notes) -> number((byte[]) raw.read(in, notes), scale).toString();
            }
            return target instanceof DecimalType
                ? (in, notes)
                      -> decimal(number((byte[]) raw.read(in, notes), scale), target, notes)
                : null;
        }
        if (target == DataTypes.StringType && AvroTypes.logical(schema).equals("uuid")) {
            return (in, notes) -> {
                ByteBuffer parts = ByteBuffer.wrap((byte[]) raw.read(in, notes));
                return new UUID(parts.getLong(), parts.getLong()).toString();
            };
        }
        return null;
    }

    private static BigDecimal number(byte[] unscaled, int scale) {
        if (unscaled.length == 0) {
            throw new AvroInput.Misread("a decimal has no digits");
        }
        return new BigDecimal(new BigInteger(unscaled), scale);
    }

    private static Object decimal(BigDecimal number, DataType target, Notes notes) {
        DecimalType of = (DecimalType) target;
        // Without a look at its digits first, a scale of millions would be filled with zeros.
        if ((long) number.precision() - number.scale() > of.precision() - of.scale()
            && number.signum() != 0) {
            return notes.note(MISFIT);
        }
        try {
            return number.setScale(of.scale(), RoundingMode.UNNECESSARY);
        } catch (ArithmeticException inexact) {
            return notes.note(MISFIT);
        }
    }

    private static Part skip(Schema schema) {
        return (in, notes) -> {
            AvroText.skip(schema, in);
            return null;
        };
    }

    private static Part misfit(Schema schema) {
        return (in, notes) -> {
            AvroText.skip(schema, in);
            return notes.note(MISFIT);
        };
    }

    private static int indexOf(StructType struct, String name) {
        scala.Option<Object> found = struct.getFieldIndex(name);
        return found.isDefined() ? (Integer) found.get() : -1;
    }
}
