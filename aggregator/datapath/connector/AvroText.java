package aggregator.connector;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.exc.StreamConstraintsException;
import java.io.IOException;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.util.HexFormat;
import org.apache.avro.Schema;

/** A value of Avro as JSON text: numbers as they were written, bytes in hexadecimal; or skipped. */
final class AvroText {
    private AvroText() {}

    static String read(Schema schema, AvroInput in) {
        StringWriter text = new StringWriter();
        try (JsonGenerator out = Json.FACTORY.createGenerator(text)) {
            write(schema, in, out);
        } catch (StreamConstraintsException deep) {
            throw new AvroInput.Misread(AvroInput.TOO_DEEP);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return text.toString();
    }

    static void skip(Schema schema, AvroInput in) {
        try {
            write(schema, in, null);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static Schema branch(Schema union, AvroInput in) {
        int at = in.whole();
        if (at < 0 || at >= union.getTypes().size()) {
            throw new AvroInput.Misread("a union has no such branch");
        }
        return union.getTypes().get(at);
    }

    static String symbol(Schema schema, AvroInput in) {
        int at = in.whole();
        if (at < 0 || at >= schema.getEnumSymbols().size()) {
            throw new AvroInput.Misread("an enum has no such symbol");
        }
        return schema.getEnumSymbols().get(at);
    }

    /** With no `out` it is skipped. */
    private static void write(Schema schema, AvroInput in, JsonGenerator out) throws IOException {
        switch (schema.getType()) {
            case RECORD:
                if (out != null) {
                    out.writeStartObject();
                }
                for (Schema.Field it : schema.getFields()) {
                    if (out != null) {
                        out.writeFieldName(it.name());
                    }
                    write(it.schema(), in, out);
                }
                if (out != null) {
                    out.writeEndObject();
                }
                break;
            case UNION:
                write(branch(schema, in), in, out);
                break;
            case ARRAY:
            case MAP:
                writeItems(schema, in, out);
                break;
            default:
                writeSingle(schema, in, out);
        }
    }

    private static void writeItems(Schema schema, AvroInput in, JsonGenerator out)
        throws IOException {
        boolean isMap = schema.getType() == Schema.Type.MAP;
        Schema of = isMap ? schema.getValueType() : schema.getElementType();
        if (out != null) {
            if (isMap) {
                out.writeStartObject();
            } else {
                out.writeStartArray();
            }
        }
        for (long count = in.block(); count > 0; count = in.block()) {
            for (; count > 0; count--) {
                int before = in.left();
                String key = isMap ? in.text() : "";
                if (isMap && out != null) {
                    out.writeFieldName(key);
                }
                write(of, in, out);
                in.counted(before);
            }
        }
        if (out != null) {
            if (isMap) {
                out.writeEndObject();
            } else {
                out.writeEndArray();
            }
        }
    }

    private static void writeSingle(Schema schema, AvroInput in, JsonGenerator out)
        throws IOException {
        Object found = single(schema, in);
        if (out == null) {
            return;
        }
        if (found instanceof byte[]) {
            out.writeString("0x" + HexFormat.of().formatHex((byte[]) found));
        } else if (found == null) {
            out.writeNull();
        } else if (found instanceof Boolean) {
            out.writeBoolean((Boolean) found);
        } else if (found instanceof Long) {
            out.writeNumber((Long) found);
        } else if (found instanceof Float) {
            out.writeNumber((Float) found);
        } else if (found instanceof Double) {
            out.writeNumber((Double) found);
        } else {
            out.writeString((String) found);
        }
    }

    private static Object single(Schema schema, AvroInput in) {
        switch (schema.getType()) {
            case NULL:
                return null;
            case BOOLEAN:
                return in.bool();
            case INT:
                return (long) in.whole();
            case LONG:
                return in.big();
            case FLOAT:
                return in.real();
            case DOUBLE:
                return in.wide();
            case BYTES:
                return in.bytes();
            case FIXED:
                return in.fixed(in.length(schema.getFixedSize()));
            case STRING:
                return in.text();
            default:
                return symbol(schema, in);
        }
    }
}
