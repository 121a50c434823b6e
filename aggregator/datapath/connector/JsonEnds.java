package aggregator.connector;

import org.apache.spark.sql.api.java.UDF1;

/**
 * Why a text that begins with a JSON object cannot be read as one: something is behind the object,
 * or it is nested deeper than readers go. For a column of Spark, which reads the object and passes
 * over the rest. By its brackets alone: other text may end as well.
 */
public final class JsonEnds implements UDF1<byte[], String> {
    /** Spark reads ten times as deep; finding out what types there are calls itself per level. */
    static final int MOST_DEEP = 100;

    @Override
    public String call(byte[] text) {
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
                if (++depth > MOST_DEEP) {
                    return "nested in more than " + MOST_DEEP + " levels";
                }
            } else if ((it == '}' || it == ']') && --depth <= 0) {
                return isBlank(text, i + 1) ? null : "not JSON";
            }
        }
        // One that does not end is no object, and Spark says so.
        return null;
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
