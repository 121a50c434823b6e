package aggregator.connector;

import java.nio.charset.StandardCharsets;

/**
 * The value of the one header with an origin: cluster/topic/partition/offset, none of which
 * has a "/". Its form is ORIGIN_TEXT of aggregator/model/values.py. Pure.
 */
final class OriginText {
    private static final int PARTITION_DIGITS = 10;
    private static final int OFFSET_DIGITS = 19;

    private OriginText() {}

    /** All that comes before the offset; the same for every record of a source partition. */
    static byte[] place(String cluster, String topic, int partition) {
        String text = cluster + "/" + topic + "/" + partition + "/";
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Null for what is no such text. */
    static OriginReader.Origin parse(byte[] value) {
        String text = new String(value, StandardCharsets.UTF_8);
        int[] ends = ends(text);
        if (ends == null) {
            return null;
        }
        try {
            int partition = Integer.parseInt(text, ends[1] + 1, ends[2], 10);
            long offset = Long.parseLong(text, ends[2] + 1, text.length(), 10);
            return new OriginReader.Origin(
                new OriginReader.Place(
                    text.substring(0, ends[0]), text.substring(ends[0] + 1, ends[1]), partition),
                offset);
        } catch (NumberFormatException tooLarge) {
            return null;
        }
    }

    /** The cluster that such a text names; null for what is none. */
    static String cluster(byte[] value) {
        String text = new String(value, StandardCharsets.UTF_8);
        int[] ends = ends(text);
        return ends == null ? null : text.substring(0, ends[0]);
    }

    /** Where cluster, topic and partition end. */
    private static int[] ends(String text) {
        int cluster = text.indexOf('/');
        int topic = text.indexOf('/', cluster + 1);
        int partition = text.indexOf('/', topic + 1);
        // A "/" that is missing, or one too many, leaves no digits in its place.
        boolean whole = cluster > 0 && topic > cluster + 1
            && isNumber(text, topic + 1, partition, PARTITION_DIGITS)
            && isNumber(text, partition + 1, text.length(), OFFSET_DIGITS);
        return whole ? new int[] {cluster, topic, partition} : null;
    }

    private static boolean isNumber(String text, int from, int to, int digits) {
        if (to <= from || to - from > digits) {
            return false;
        }
        for (int i = from; i < to; i++) {
            if (text.charAt(i) < '0' || text.charAt(i) > '9') {
                return false;
            }
        }
        return true;
    }
}
