package aggregator.connector;

import org.apache.spark.sql.api.java.UDF1;

/**
 * Whether nothing is behind the JSON object that a text begins with. For a column of Spark, which
 * reads the object and passes over the rest. By its brackets alone: other text may end as well.
 */
public final class JsonEnds implements UDF1<byte[], Boolean> {
    @Override
    public Boolean call(byte[] text) {
        int depth = 0;
        byte quote = 0;
        for (int i = 0; text != null && i < text.length; i++) {
            byte it = text[i];
            if (quote != 0) {
                i += it == '\\' ? 1 : 0;
                quote = it == quote ? 0 : quote;
            } else if (it == '"' || it == '\'') {
                // Spark takes both.
                quote = it;
            } else if (it == '{' || it == '[') {
                depth++;
            } else if ((it == '}' || it == ']') && --depth <= 0) {
                return isBlank(text, i + 1);
            }
        }
        // One that does not end is no object, and Spark says so.
        return true;
    }

    private static boolean isBlank(byte[] text, int from) {
        for (int i = from; i < text.length; i++) {
            if (text[i] != ' ' && text[i] != '\t' && text[i] != '\n' && text[i] != '\r') {
                return false;
            }
        }
        return true;
    }
}
